//! Pictures made fit for models, in a worker that can do nothing else.

use std::{io, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    files::PreparedPicture,
    ports::Pictures,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use image::ImageFormat;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, ChildStdout},
    sync::Semaphore,
    time::timeout,
};

use crate::{
    extract::clean,
    limits::Limits,
    worker::{PICTURE_WORKER_ARGUMENT, PictureHeader, SIDE, command},
};

/// The kinds that models see.
const SEEN: [ImageFormat; 4] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP];
/// Maximum size of a worker's words before the picture, in bytes.
const MAX_HEAD: usize = 4096;
/// Maximum size of a picture that it makes, in bytes.
const MAX_MADE: u64 = 5 << 20;
/// Time limit.
const TIME: Duration = Duration::from_secs(30);

/// Makes pictures fit for models.
#[derive(Debug, Clone)]
pub struct PictureReader {
    program: PathBuf,
    /// A worker may take much memory, so there is one at a time.
    turns: Arc<Semaphore>,
}

impl PictureReader {
    /// A reader. Nothing is started. `program` calls [`run_picture_worker`](crate::worker::run_picture_worker) when its first
    /// argument is [`PICTURE_WORKER_ARGUMENT`].
    pub fn new(program: PathBuf) -> Self {
        Self { program, turns: Arc::new(Semaphore::new(1)) }
    }

    async fn read(&self, content: &[u8]) -> Result<PreparedPicture, String> {
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let mut child = self.start().map_err(|error| format!("no reader could be started: {error}"))?;
        let (Some(mut input), Some(mut out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its reader has no streams".to_owned());
        };
        let fed = async {
            // A reader that has seen enough hangs up.
            let _ = input.write_all(content).await;
            drop(input);
        };
        match timeout(TIME, async { tokio::join!(fed, hear(&mut out)).1 }).await {
            Ok(heard) => heard,
            Err(_) => Err(format!("it took longer than {} seconds", TIME.as_secs())),
        }
    }

    fn start(&self) -> io::Result<Child> {
        let limits = Limits { time: TIME, ..Limits::default() };
        let mut command = command(&self.program, PICTURE_WORKER_ARGUMENT, &limits)?;
        command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

/// Reads the worker's answer, which is believed only where it can be.
async fn hear(out: &mut ChildStdout) -> Result<PreparedPicture, String> {
    let ended = |_| "its reader ended without a word: it may be made to do harm".to_owned();
    let nonsense = || "its reader returned invalid data".to_owned();
    let length = usize::try_from(out.read_u32_le().await.map_err(ended)?).map_err(|_| nonsense())?;
    if length > MAX_HEAD {
        return Err(nonsense());
    }
    let mut head = vec![0; length];
    out.read_exact(&mut head).await.map_err(ended)?;
    let (media_type, width, height, bytes) = match serde_json::from_slice(&head).map_err(|_| nonsense())? {
        PictureHeader::Failed(why) => return Err(clean::line(&why, 200)),
        PictureHeader::Ready { media_type, width, height, bytes } => (media_type, width, height, bytes),
    };
    let (ending, format) = match media_type.as_str() {
        "image/png" => ("png", ImageFormat::Png),
        "image/jpeg" => ("jpg", ImageFormat::Jpeg),
        _ => return Err(nonsense()),
    };
    let sides = 1..=SIDE;
    if bytes == 0 || bytes > MAX_MADE || !sides.contains(&width) || !sides.contains(&height) {
        return Err(nonsense());
    }
    let mut content = vec![0; usize::try_from(bytes).map_err(|_| nonsense())?];
    out.read_exact(&mut content).await.map_err(ended)?;
    if image::guess_format(&content).ok() != Some(format) {
        return Err(nonsense());
    }
    let hash = Sha256::digest(&content);
    let digest: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(PreparedPicture { media_type, width, height, name: format!("picture-{digest}.{ending}"), content })
}

impl Pictures for PictureReader {
    fn prepare<'a>(&'a self, content: &'a [u8]) -> BoxFuture<'a, Result<Option<PreparedPicture>, WorkspaceError>> {
        // The first bytes say what it is; nothing more of it is looked at in this process.
        if !image::guess_format(content).is_ok_and(|format| SEEN.contains(&format)) {
            return std::future::ready(Ok(None)).boxed();
        }
        let failed = |why| {
            WorkspaceError::new(ErrorKind::InvalidInput, format!("the picture cannot be shown to models: {why}"))
                .with_hint("save it again as PNG or JPEG, smaller if it is very large")
        };
        async move { self.read(content).await.map(Some).map_err(failed) }.boxed()
    }
}
