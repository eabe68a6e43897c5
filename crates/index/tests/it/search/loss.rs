//! Tests of an index that is deleted or damaged while in use.

use agentd_index::{IndexError, IndexHandle};
use tokio_util::sync::CancellationToken;

use super::support::{Shelf, cited, config, index_files, words};

#[tokio::test]
async fn index_opens_with_any_file_damaged() {
    // Each file is emptied, truncated and overwritten in turn.
    let count = {
        let shelf = Shelf::new().await;
        shelf.add("a.pdf", &["some text"]).await;
        shelf.index.close().await.unwrap();
        index_files(shelf.folder.path()).len()
    };
    for number in 0..count {
        for damage in [0, 1, 2] {
            let shelf = Shelf::new().await;
            let document = shelf.add("a.pdf", &["some text"]).await;
            shelf.index.close().await.unwrap();
            let mut files = index_files(shelf.folder.path());
            files.sort_by_key(|file| file.extension().map(std::ffi::OsStr::to_owned));
            let Some(file) = files.get(number) else { continue };
            let mut bytes = std::fs::read(file).unwrap();
            match damage {
                0 => bytes.clear(),
                1 => bytes.truncate(bytes.len() / 2),
                _ => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7)),
            }
            std::fs::write(file, bytes).unwrap();

            let index = IndexHandle::open(config(shelf.folder.path(), &shelf.clock)).await.unwrap();
            let shelf = Shelf { index, ..shelf };
            // Damage may only show at first use. After that the index works.
            let first = shelf.index.search(words(&[document], "text"), CancellationToken::new()).await;
            if let Err(error) = first {
                assert!(matches!(error, IndexError::Lost(_)), "{file:?} {damage}: {error}");
            }
            let again = shelf.add("a.pdf", &["some text"]).await;
            assert_eq!(cited(&shelf.search(&[again], "text").await), ["a.pdf p. 1"], "{file:?} {damage}");
            let new = shelf.add("b.pdf", &["new text"]).await;
            assert_eq!(cited(&shelf.search(&[new], "new").await), ["b.pdf p. 1"], "{file:?} {damage}");
        }
    }
}

#[tokio::test]
async fn files_truncated_under_a_reader_are_an_error() {
    // Enough chunks that the library caches what queries read repeatedly.
    let pages: Vec<String> = (0..3000).map(|page| format!("common word{page} {}", "filler ".repeat(30))).collect();
    for is_searched_before in [false, true] {
        let shelf = Shelf::new().await;
        let document = shelf.add("a.pdf", &pages).await;
        if is_searched_before {
            assert_eq!(cited(&shelf.search(std::slice::from_ref(&document), "word7").await), ["a.pdf p. 8"]);
        }
        for file in index_files(shelf.folder.path()) {
            let length = std::fs::metadata(&file).unwrap().len();
            std::fs::File::options().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
        }
        let asked = shelf.index.search(words(&[document], "word2999 common"), CancellationToken::new());
        let error = asked.await.unwrap_err();
        assert!(matches!(error, IndexError::Lost(_)), "{error}");
        let again = shelf.add("a.pdf", &pages).await;
        for word in ["word2999", "word299", "\"word2998\"", "word2997*"] {
            let answer = shelf.search(std::slice::from_ref(&again), word).await;
            let number: u32 = word.trim_matches(['w', 'o', 'r', 'd', '"', '*']).parse().unwrap();
            assert_eq!(cited(&answer), [format!("a.pdf p. {}", number + 1)], "{word}");
        }
    }
}
