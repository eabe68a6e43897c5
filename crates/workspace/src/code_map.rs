//! Map of a project's code. Small projects have no map, so that no code reader is started for them.

use std::{path::Path, sync::Arc};

use agentd_core::{
    code::{CodeAnswer, CodeQuestion, MapFile},
    ports::CodeReader,
};
use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

/// Minimum number of code files for a map.
const MIN_FILES: usize = 30;
/// Maximum number of entries visited to count code files.
const MAX_ENTRIES: usize = 5000;
/// Extensions of files whose definitions the code reader can find.
const EXTENSIONS: [&str; 14] =
    ["c", "cjs", "cts", "go", "h", "java", "js", "jsx", "mjs", "mts", "py", "rs", "ts", "tsx"];

/// Draws the map. Returns an empty map for a small project, `None` on failure.
pub async fn draw(code: &dyn CodeReader, project: &Path, max_tokens: usize) -> Option<Vec<MapFile>> {
    let folder = project.to_owned();
    if !tokio::task::spawn_blocking(move || has_enough_code(&folder)).await.ok()? {
        return Some(Vec::new());
    }
    let question = CodeQuestion::Map { max_tokens };
    let reply = code.ask(project.to_owned(), question, Arc::new(|_| {}), CancellationToken::new()).await.ok()?;
    match reply.answer {
        CodeAnswer::Map(files) => Some(files),
        _ => None,
    }
}

fn has_enough_code(project: &Path) -> bool {
    let is_code = |path: &Path| {
        path.extension().and_then(|extension_os| extension_os.to_str()).is_some_and(|it| EXTENSIONS.contains(&it))
    };
    let walk = WalkBuilder::new(project).follow_links(false).require_git(false).build();
    let files = walk.take(MAX_ENTRIES).filter_map(Result::ok).filter(|entry| is_code(entry.path()));
    files.take(MIN_FILES).count() == MIN_FILES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_map_needs_thirty_source_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: String| std::fs::write(folder.path().join(name), "x").unwrap();
        (0..29).for_each(|number| write(format!("{number}.rs")));
        (0..50).for_each(|number| write(format!("{number}.txt")));
        assert!(!has_enough_code(folder.path()));
        write("last.py".to_owned());
        assert!(has_enough_code(folder.path()));
        assert!(!has_enough_code(Path::new("/nowhere")));
    }
}
