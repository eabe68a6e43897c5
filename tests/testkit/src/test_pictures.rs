//! Fake pictures: any content with the right prefix is accepted as a picture.

use agentd_core::{
    error::{ErrorKind, WorkspaceError},
    files::PreparedPicture,
    ports::Pictures,
};
use futures_util::{FutureExt as _, future::BoxFuture};

/// Accepts content that begins with `PICTURE` as a picture of 30 × 25 pixels, and treats content that begins with
/// `BROKEN` as a damaged picture.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestPictures;

impl Pictures for TestPictures {
    fn prepare<'a>(
        &'a self,
        content: &'a [u8],
        _page: Option<u32>,
    ) -> BoxFuture<'a, Result<Option<PreparedPicture>, WorkspaceError>> {
        let prepared = if content.starts_with(b"PICTURE") {
            let name = format!("picture-{}.png", content.len());
            let media_type = "image/png".to_owned();
            Ok(Some(PreparedPicture { media_type, width: 30, height: 25, name, content: content.to_vec() }))
        } else if content.starts_with(b"BROKEN") {
            Err(WorkspaceError::new(ErrorKind::InvalidInput, "the picture is damaged").with_hint("save it again"))
        } else {
            Ok(None)
        };
        std::future::ready(prepared).boxed()
    }
}
