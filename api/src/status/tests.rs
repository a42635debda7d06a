//! The whole JSON of each constructor, against upstream's shape.
