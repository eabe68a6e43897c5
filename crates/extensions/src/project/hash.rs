//! The hash by which a project is trusted. Pure.
//!
//! It covers the path, the bytes and the right to run of each file. Lengths stand before what varies, so that no two sets of files
//! have the same input. The order in which the disk lists them makes no difference.

use sha2::{Digest as _, Sha256};

use super::folder::FolderFile;

/// Mark of what is hashed, and of the form in which it is.
const FORM: &[u8] = b"agentd project 1\0";

/// Hash over files, in hexadecimal digits; empty where there are none.
pub(crate) fn of_files<'a>(files: impl Iterator<Item = &'a FolderFile>) -> String {
    let mut files: Vec<&FolderFile> = files.collect();
    if files.is_empty() {
        return String::new();
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    let mut digest = Sha256::new();
    digest.update(FORM);
    for FolderFile { path, runs, content } in files {
        digest.update((path.len() as u64).to_le_bytes());
        digest.update(path.as_bytes());
        digest.update([u8::from(*runs)]);
        digest.update((content.len() as u64).to_le_bytes());
        digest.update(content);
    }
    hex(&digest.finalize())
}

/// Hash of one file's content.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, content: &[u8]) -> FolderFile {
        FolderFile { path: path.to_owned(), runs: false, content: content.to_vec() }
    }

    fn any_files() -> impl Strategy<Value = Vec<FolderFile>> {
        let content = prop::collection::vec(any::<u8>(), 0..20);
        let files = prop::collection::btree_map("[a-z/.]{1,6}", (content, any::<bool>()), 1..6);
        files.prop_map(|files| {
            let file = |(path, (content, runs))| FolderFile { path, runs, content };
            files.into_iter().map(file).collect()
        })
    }

    proptest! {
        #[test]
        fn the_order_of_a_folder_makes_no_difference(files in any_files(), turned in any::<prop::sample::Index>()) {
            let mut other = files.clone();
            other.rotate_left(turned.index(files.len()));
            prop_assert_eq!(of_files(files.iter()), of_files(other.iter()));
            other.reverse();
            prop_assert_eq!(of_files(files.iter()), of_files(other.iter()));
        }

        #[test]
        fn each_byte_name_and_right_makes_one(files in any_files(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let hash = of_files(files.iter());
            let which = at.index(files.len());
            let changed = |change: &dyn Fn(&mut FolderFile)| {
                let mut files = files.clone();
                change(&mut files[which]);
                of_files(files.iter())
            };
            prop_assert_ne!(&hash, &changed(&|file| file.path.push('x')));
            prop_assert_ne!(&hash, &changed(&|file| file.runs = !file.runs));
            prop_assert_ne!(&hash, &changed(&|file| file.content.push(0)));
            if !files[which].content.is_empty() {
                let byte = at.index(files[which].content.len());
                prop_assert_ne!(&hash, &changed(&|file| file.content[byte] ^= 1 << bit));
            }
            let mut fewer = files.clone();
            fewer.remove(which);
            prop_assert_ne!(&hash, &of_files(fewer.iter()));
        }
    }

    #[test]
    fn no_bytes_pass_from_a_name_to_a_content_or_to_the_next_file() {
        let sets = [
            vec![file("a", b"bc")],
            vec![file("ab", b"c")],
            vec![file("a", b"b"), file("c", b"")],
            vec![file("a", b""), file("b", b"c")],
        ];
        let hashes: std::collections::BTreeSet<String> = sets.iter().map(|set| of_files(set.iter())).collect();
        assert_eq!(hashes.len(), sets.len());
        assert_eq!(of_files([].iter()), "");
    }
}
