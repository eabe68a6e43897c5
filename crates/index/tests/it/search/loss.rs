//! Tests for an index that is deleted or damaged while in use.

use agentd_index::{IndexError, IndexHandle};
use tokio_util::sync::CancellationToken;

use super::support::{TestIndex, cited, config, index_files, words};

#[tokio::test]
async fn index_opens_with_any_file_damaged() {
    // Each file is emptied, truncated and overwritten in turn.
    let count = {
        let test_index = TestIndex::new().await;
        test_index.add("a.pdf", &["some text"]).await;
        test_index.index.close().await.unwrap();
        index_files(test_index.folder.path()).len()
    };
    for number in 0..count {
        for damage in [0, 1, 2] {
            let test_index = TestIndex::new().await;
            let document = test_index.add("a.pdf", &["some text"]).await;
            test_index.index.close().await.unwrap();
            let mut files = index_files(test_index.folder.path());
            files.sort_by_key(|file| file.extension().map(std::ffi::OsStr::to_owned));
            let Some(file) = files.get(number) else { continue };
            let mut bytes = std::fs::read(file).unwrap();
            match damage {
                0 => bytes.clear(),
                1 => bytes.truncate(bytes.len() / 2),
                _ => bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7)),
            }
            std::fs::write(file, bytes).unwrap();

            let index = IndexHandle::open(config(test_index.folder.path(), &test_index.clock)).await.unwrap();
            let test_index = TestIndex { index, ..test_index };
            // Damage may only be detected at first use. The index works afterwards.
            let first = test_index.index.search(words(&[document], "text"), CancellationToken::new()).await;
            if let Err(error) = first {
                assert!(matches!(error, IndexError::Lost(_)), "{file:?} {damage}: {error}");
            }
            let readded = test_index.add("a.pdf", &["some text"]).await;
            assert_eq!(cited(&test_index.search(&[readded], "text").await), ["a.pdf p. 1"], "{file:?} {damage}");
            let new = test_index.add("b.pdf", &["new text"]).await;
            assert_eq!(cited(&test_index.search(&[new], "new").await), ["b.pdf p. 1"], "{file:?} {damage}");
        }
    }
}

#[tokio::test]
async fn index_files_truncated_while_in_use_are_an_error() {
    // Enough chunks that the library caches data that queries read repeatedly.
    let pages: Vec<String> = (0..3000).map(|page| format!("common word{page} {}", "filler ".repeat(30))).collect();
    for is_searched_before in [false, true] {
        let test_index = TestIndex::new().await;
        let document = test_index.add("a.pdf", &pages).await;
        if is_searched_before {
            assert_eq!(cited(&test_index.search(std::slice::from_ref(&document), "word7").await), ["a.pdf p. 8"]);
        }
        for file in index_files(test_index.folder.path()) {
            let length = std::fs::metadata(&file).unwrap().len();
            std::fs::File::options().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
        }
        let search_after_loss =
            test_index.index.search(words(&[document], "word2999 common"), CancellationToken::new());
        let error = search_after_loss.await.unwrap_err();
        assert!(matches!(error, IndexError::Lost(_)), "{error}");
        let readded = test_index.add("a.pdf", &pages).await;
        for word in ["word2999", "word299", "\"word2998\"", "word2997*"] {
            let answer = test_index.search(std::slice::from_ref(&readded), word).await;
            let number: u32 = word.trim_matches(['w', 'o', 'r', 'd', '"', '*']).parse().unwrap();
            assert_eq!(cited(&answer), [format!("a.pdf p. {}", number + 1)], "{word}");
        }
    }
}
