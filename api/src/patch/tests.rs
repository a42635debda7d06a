mod json_patch;
mod merge;
