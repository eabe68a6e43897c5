//! Asks about the code of a folder: `code-ask FOLDER QUERY`, or `code-ask FOLDER --map TOKENS`.

use std::{error::Error, path::Path};

use agentd_code::{CodeFolder, FolderConfig};
use agentd_core::code::MapFile;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let indexed = |folder: &str| {
        let mut code = CodeFolder::new(Path::new(folder), FolderConfig::new(|_| true));
        code.refresh();
        code
    };
    match words.as_slice() {
        [folder, "--map", tokens] => {
            print!("{}", MapFile::render(&indexed(folder).map(tokens.parse()?)));
        }
        [folder, query] => {
            for hit in indexed(folder).search(query, "", 10) {
                let symbol = hit.symbol.map(|symbol| format!(" {} {}", symbol.kind.name(), symbol.name));
                println!(
                    "{:6.2} {}:{}-{}{}",
                    hit.score,
                    hit.path,
                    hit.first_line,
                    hit.last_line,
                    symbol.unwrap_or_default()
                );
            }
        }
        _ => return Err("code-ask FOLDER QUERY, or code-ask FOLDER --map TOKENS".into()),
    }
    Ok(())
}
