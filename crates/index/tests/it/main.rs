//! Tests with real workers on documents from other programs and on malicious files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod archives;
mod bench;
mod changes;
mod drawn;
mod exports;
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
