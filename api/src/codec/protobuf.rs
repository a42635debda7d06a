//! Protobuf bodies.
