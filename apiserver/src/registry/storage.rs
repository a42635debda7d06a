//! The kinds of the storage group.

pub(crate) mod csi;
pub(crate) mod storage_class;
pub(crate) mod volume_attachment;
