//! Documents made by other programs, and files made to do harm, read by real workers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod archives;
mod bench;
mod changes;
mod hostile;
mod library;
mod locked;
mod pages;
mod readers;
mod scans;
mod search;
mod sections;
mod workbooks;
mod worker;
