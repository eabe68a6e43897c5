//! Recordings through their public face.

mod captured;
mod texts;
