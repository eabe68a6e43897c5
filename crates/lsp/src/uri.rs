//! Addresses of files, as servers write them.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

/// The address of an absolute path.
pub(crate) fn of_path(path: &Path) -> String {
    let mut address = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                address.push(char::from(*byte))
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// The absolute path of an address; none where it is no file of this machine.
pub(crate) fn to_path(address: &str) -> Option<PathBuf> {
    let rest = address.strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest).as_bytes();
    if !rest.starts_with(b"/") {
        return None;
    }
    let (mut path, mut at) = (Vec::with_capacity(rest.len()), 0);
    while let Some(byte) = rest.get(at) {
        let decoded = match byte {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(at + 1..at + 3)?).ok()?;
                at += 2;
                u8::from_str_radix(digits, 16).ok().filter(|byte| *byte != 0)?
            }
            byte => *byte,
        };
        path.push(decoded);
        at += 1;
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_files_of_this_machine_have_paths() {
        let check =
            |address: &str, path: Option<&str>| assert_eq!(to_path(address), path.map(PathBuf::from), "{address}");
        check("file:///project/a%20b.py", Some("/project/a b.py"));
        check("file://localhost/a", Some("/a"));
        check("file://elsewhere/a", None);
        check("untitled:a", None);
        check("file:///a%zz", None);
        check("file:///a%4", None);
        check("file:///a%00", None);
    }

    proptest! {
        #[test]
        fn a_path_comes_back(bytes in prop::collection::vec(1u8..=255, 0..60)) {
            let path = Path::new("/").join(OsString::from_vec(bytes.into_iter().filter(|byte| *byte != b'/').collect()));
            prop_assert_eq!(to_path(&of_path(&path)), Some(path));
        }
    }
}
