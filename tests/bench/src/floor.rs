//! The floor: the host's best result for the same work without the daemon.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use serde_json::json;

use crate::figures::Samples;

/// Wire used by the bare client: its path, and the shortest text that marks an event with text in the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BareWire {
    path: &'static str,
    words: &'static [u8],
}

impl BareWire {
    pub(crate) const CHAT: Self = Self { path: "chat/completions", words: b"\"content\":\"" };
    pub(crate) const MESSAGES: Self = Self { path: "messages", words: b"\"text_delta\"" };
    pub(crate) const RESPONSES: Self = Self { path: "responses", words: b"\"response.output_text.delta\"" };
}

/// A minimal client that queries the model directly.
pub(crate) struct BareClient {
    http: reqwest::Client,
    base_url: String,
    wire: BareWire,
    body: Vec<u8>,
}

/// Measurements of one response received by the bare client.
pub(crate) struct BareAnswer {
    pub(crate) first_text: Duration,
    pub(crate) whole: Duration,
    pub(crate) deltas: u64,
}

impl BareClient {
    /// Creates a client for the model at this URL.
    pub(crate) fn new(base_url: &str) -> anyhow::Result<Self> {
        // Returns an error if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let body = json!({
            "model": "scripted-model", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "Hello"}],
        });
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).tls_certs_only([]).build()?;
        let (base_url, body) = (base_url.to_owned(), body.to_string().into_bytes());
        Ok(Self { http, base_url, wire: BareWire::CHAT, body })
    }

    /// Switches to another wire.
    pub(crate) fn over(self, wire: BareWire) -> Self {
        Self { wire, ..self }
    }

    /// Uses this request body instead of the smallest possible body.
    pub(crate) fn with_body(self, body: Vec<u8>) -> Self {
        Self { body, ..self }
    }

    /// Sends a request, and counts the events that contain text without parsing them.
    pub(crate) async fn ask(&self) -> anyhow::Result<BareAnswer> {
        let BareWire { path, words } = self.wire;
        let (finder, url) = (memchr::memmem::Finder::new(words), format!("{}/{path}", self.base_url));
        let started = Instant::now();
        let request = self.http.post(&url).header("content-type", "application/json").body(self.body.clone());
        let response = request.send().await?.error_for_status()?;
        let mut stream = response.bytes_stream();
        let (mut first_text, mut deltas) = (None, 0_u64);
        // The end of the previous chunk, in case an event is split across two chunks.
        let mut seam: Vec<u8> = Vec::new();
        while let Some(bytes) = stream.next().await {
            let bytes = bytes?;
            seam.extend_from_slice(&bytes[..bytes.len().min(words.len() - 1)]);
            deltas += finder.find_iter(&bytes).count() as u64 + finder.find_iter(&seam).count() as u64;
            if deltas > 0 {
                first_text.get_or_insert_with(|| started.elapsed());
            }
            let overlap = bytes.len().min(words.len() - 1);
            seam.clear();
            seam.extend_from_slice(&bytes[bytes.len() - overlap..]);
        }
        let first_text = first_text.context("the model sent no text")?;
        Ok(BareAnswer { first_text, whole: started.elapsed(), deltas })
    }
}

/// Measures the time to start the smallest process and to detect its end.
pub(crate) fn spawning(times: usize) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..times {
        let started = Instant::now();
        Command::new("/bin/true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
        samples.add(started.elapsed());
    }
    Ok(samples)
}

/// Syncs 4 KiB blocks one by one in a file that never grows, which is the minimum cost of a commit.
pub(crate) struct Disk(File);

impl Disk {
    /// Creates the file in this folder.
    pub(crate) fn in_folder(folder: &Path) -> std::io::Result<Self> {
        let file = File::create(folder.join("floor"))?;
        file.write_all_at(&[7; 4096], 0)?;
        file.sync_all()?;
        Ok(Self(file))
    }

    /// Writes and syncs one block, and returns the time taken.
    pub(crate) fn sync(&self) -> std::io::Result<Duration> {
        let started = Instant::now();
        self.0.write_all_at(&[7; 4096], 0)?;
        self.0.sync_data()?;
        Ok(started.elapsed())
    }
}
