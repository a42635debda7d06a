//! Strategic merge patch.
