//! Documents, read by the daemon's own program.

use std::{fs::File, path::Path, process::Command};

use agentd_testkit::daemon::program;
use serde_json::{Value, json};

/// The JSON of each frame.
fn frames(mut bytes: &[u8]) -> Vec<Value> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        frames.push(serde_json::from_slice(frame).unwrap());
        bytes = rest;
    }
    frames
}

#[test]
fn the_daemon_knows_how_to_be_the_reader_of_a_document() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/index/tests/fixtures/latin.pdf");
    let limits = json!({
        "bytes_in": 1_000_000, "bytes_out": 1_000_000, "parts": 9, "cells": 9, "memory": 1_u64 << 30,
        "time": {"secs": 60, "nanos": 0},
    });
    let output = Command::new(program("agentd"))
        .args(["extract-worker", &json!({"named": "pdf", "limits": limits}).to_string()])
        .env_clear()
        .stdin(File::open(document).unwrap())
        .output()
        .unwrap();
    let frames = frames(&output.stdout);
    assert_eq!(frames.len(), 6, "{frames:#?} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(frames[0], json!({"recognised": "pdf"}));
    assert_eq!(frames[1]["piece"]["head"]["title"], "Annual report");
    assert_eq!(frames[4]["piece"]["part"]["place"], json!({"page": 3}));
    assert_eq!(frames[5]["piece"]["end"]["parts"], 3);
}
