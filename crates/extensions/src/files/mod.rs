//! Files and folders that people and projects bring along, as they are now.
//!
//! - `disk`: files and folders, opened safely, and without waiting where nobody may wait; what was read before and is as it was.
//! - `front`: the front matter of a file.
//! - `agreed`: folders that are used as the person agreed to them: hashes, records, copies.
//! - `tree`: the files of a skill or a plugin, looked through and copied. `requirements`: the packages that a skill declares.
//!
//! Before most turns nothing has changed, and to see that takes a few microseconds: less than waking a thread that may
//! wait for a disk. So the first look is at what the system has at hand, and only where that does not tell is there a
//! patient one.
//!
//! A project may be untrusted, and so may the folders around it: anything but a plain file of this user, or reached
//! through a link, is left out.

pub(crate) mod agreed;
pub mod disk;
pub(crate) mod front;
pub(crate) mod requirements;
pub(crate) mod tree;
