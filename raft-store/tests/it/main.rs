//! The store from outside: one binary, a module for each concern.

mod group;
mod grpc;
mod mvcc;
mod rocks;
mod single;
mod support;
