//! The CRI's messages and clients, made from `proto/` when the crate is built.
#![expect(
    clippy::all,
    unused_qualifications,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

tonic::include_proto!("runtime.v1");

pub mod events {
    tonic::include_proto!("containerd.services.events.v1");
}

pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
