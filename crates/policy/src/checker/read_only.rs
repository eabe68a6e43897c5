//! The allowlist of read-only commands inside the session's folders: plain words, a listed program with listed options,
//! and paths that stay inside. All other commands require a question.
//!
//! In the lists, a long option ends in `=` if it takes a value, joined or in the next word, and in `?` if it may have a
//! joined value. A `#` among the short options stands for a number, as in `head -5`.

use std::path::Path;

use super::{carriers, paths, tables::holds};
use crate::command::{Part, Redirect, word::Word};

/// Returns true if a part is read-only and stays inside the session's folders.
pub(crate) fn only_looks(part: &Part, roots: &[&Path]) -> bool {
    let Some(program) = part.words.first().filter(|_| part.is_plain()) else { return false };
    let (name, arguments) = (program.text.as_str(), part.arguments());
    // echo only prints its arguments, and opens no path.
    if name == "echo" {
        return true;
    }
    let is_confined = |text: &str| paths::is_confined(&Word::literal(text), roots);
    let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    if name == "printf" {
        return texts.first().is_some_and(|format| !format.starts_with('-'));
    }
    texts.iter().all(|text| is_confined(text)) && is_read_only(name, &texts, &is_confined)
}

/// Reason to ask about a part for which [`runs_configured_programs`] is true, next to a part that is not read-only.
pub(crate) const CONFIGURED_PROGRAMS: &str =
    "git runs programs that its repository configures, unconfined in a line that is not read-only";

/// Returns true if files in the folder may make the program run others: git runs programs that the configuration of its
/// repository names. No other program on the list obeys a file that the command does not name.
pub(crate) fn runs_configured_programs(part: &Part) -> bool {
    part.program() == "git"
}

/// Returns the reason why a part is not read-only, for the approval prompt.
pub(crate) fn question_reason(part: &Part) -> &'static str {
    let words = || part.words.iter();
    match part {
        _ if carriers::carries(part) => "it runs another command",
        _ if words().any(|word| word.varies) => "it has a variable",
        _ if words().any(|word| word.globs || word.braces) => "it has a glob pattern, which depends on the folder",
        _ if !part.assigns.is_empty() => "it sets a variable",
        _ if !part.redirects.iter().all(Redirect::is_silent) => "it redirects to or from a file",
        _ if part.background => "it runs in the background",
        _ => "it is not a known read-only command",
    }
}

fn is_read_only(name: &str, texts: &[&str], is_confined: &impl Fn(&str) -> bool) -> bool {
    match name {
        "cd" => matches!(texts, [folder] if !folder.is_empty() && !folder.starts_with('-')),
        "exit" => texts.len() <= 1 && texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_digit())),
        "sleep" => matches!(texts, [time] if time.trim_end_matches(['s', 'm'])
            .bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')),
        "command" => matches!(texts, ["-v" | "-V", name] if !name.starts_with('-')),
        "test" => test_only_reads(texts),
        "[" => texts.split_last().is_some_and(|(last, texts)| *last == "]" && test_only_reads(texts)),
        "find" => texts.iter().all(|text| !text.starts_with('-') || holds(FIND, text)),
        "date" => {
            let allowed = accepts("uR", "d", "utc rfc-email iso-8601? date=");
            texts.iter().all(|text| *text == "-I") && texts.len() == 1
                || operands(allowed, "", texts, is_confined)
                    .is_some_and(|rest| rest.iter().all(|text| text.starts_with('+')))
        }
        // The old form of `tail -c -f` does not end.
        "tail" if texts.iter().any(|text| text.starts_with(['-', '+']) && text.ends_with('f')) => false,
        // Excludes modules, program files and the environment.
        "jq" => {
            let options =
                accepts("rcsSneMCRj", "", "raw-output compact-output slurp sort-keys null-input exit-status tab");
            let names = ["env", "ENV", "import", "include", "modulemeta"];
            !texts.iter().any(|text| names.iter().any(|name| text.contains(name)))
                && operands(options, "", texts, is_confined).is_some()
        }
        "git" => git_only_reads(texts, is_confined),
        _ => list_of(name).is_some_and(|allowed| operands(allowed, "", texts, is_confined).is_some()),
    }
}

/// Returns the words that are not options, or `None` if an option is not on the lists, or its value leads outside.
fn operands<'t>(
    allowed: ReadOnlyArgs,
    more: &str,
    texts: &[&'t str],
    is_confined: &impl Fn(&str) -> bool,
) -> Option<Vec<&'t str>> {
    let mut found = Vec::new();
    let mut rest = texts.iter();
    let mut ended = false;
    while let Some(text) = rest.next() {
        let Some(option) = text.strip_prefix('-').filter(|option| !ended && !option.is_empty()) else {
            found.push(*text);
            continue;
        };
        if option == "-" {
            ended = true;
        } else if let Some(long) = option.strip_prefix('-') {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let is_listed = |end: &str| {
                let entries = allowed.longs.split_ascii_whitespace().chain(more.split_ascii_whitespace());
                entries.filter_map(|entry| entry.strip_suffix(end)).any(|entry| entry == name)
            };
            match value {
                Some(value) if (is_listed("=") || is_listed("?")) && is_confined(value) => {}
                None if is_listed("") || is_listed("?") => {}
                None if is_listed("=") => drop(rest.next()?),
                _ => return None,
            }
        } else if allowed.flags.contains('#') && option.bytes().all(|byte| byte.is_ascii_digit()) {
        } else {
            for (at, letter) in option.char_indices() {
                if letter == '#' {
                    return None;
                }
                if allowed.valued.contains(letter) {
                    let value = &option[at + letter.len_utf8()..];
                    if value.is_empty() {
                        rest.next()?;
                    } else if !is_confined(value) {
                        return None;
                    }
                    break;
                }
                if !allowed.flags.contains(letter) {
                    return None;
                }
            }
        }
    }
    (found.len() <= allowed.operands).then_some(found)
}

/// Checks `test` and `[`. No word may name a variable with an index, because the index can be a command.
fn test_only_reads(texts: &[&str]) -> bool {
    texts.iter().all(|text| {
        let operator = text.len() <= 1 || !text.starts_with('-') || holds(TEST, text);
        let number = text.strip_prefix('-').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        (operator || number) && !text.contains(['$', '`', '['])
    })
}

/// Built-in formats of git.
const FORMATS: &str = "oneline short medium full fuller reference email mboxrd raw";

fn git_only_reads(texts: &[&str], is_confined: &impl Fn(&str) -> bool) -> bool {
    let globals = texts.iter().take_while(|text| text.starts_with('-')).count();
    let is_listed = |text: &&str| matches!(*text, "--no-pager" | "-P" | "--no-optional-locks" | "--version");
    if !texts[..globals].iter().all(is_listed) {
        return false;
    }
    let Some((name, rest)) = texts[globals..].split_first() else { return globals > 0 };
    // Signatures are verified by a program that the repository names.
    let formats = rest.iter().all(|text| {
        let named = ["--pretty=", "--format="].iter().find_map(|option| text.strip_prefix(option));
        // Git's own formats, and formats in the command. Any other name refers to the configuration of the repository.
        let is_known = |format: &str| format.contains('%') || holds(FORMATS, format);
        !text.contains("%G") && !text.contains("signature") && named.is_none_or(is_known)
    });
    if !formats {
        return false;
    }
    match (*name, rest) {
        ("tag", [] | ["-l" | "--list"]) | ("remote", [] | ["-v" | "--verbose"]) => true,
        ("stash" | "worktree", ["list"]) | ("reflog", [] | ["show"]) => true,
        _ => list_of_git(name).is_some_and(|(allowed, more)| operands(allowed, more, rest, is_confined).is_some()),
    }
}

/// Arguments with which a program is read-only.
#[derive(Debug, Clone, Copy)]
struct ReadOnlyArgs {
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value.
    valued: &'static str,
    /// Long options, with the suffixes described in the module documentation.
    longs: &'static str,
    /// Maximum number of other words.
    operands: usize,
}

const fn accepts(flags: &'static str, valued: &'static str, longs: &'static str) -> ReadOnlyArgs {
    ReadOnlyArgs { flags, valued, longs, operands: usize::MAX }
}

/// Creates the arguments for a program that takes only options.
const fn options_only(flags: &'static str, longs: &'static str) -> ReadOnlyArgs {
    ReadOnlyArgs { operands: 0, ..accepts(flags, "", longs) }
}

const SUMS: &str = "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum";

/// Returns the arguments that a program may have, if it is on the list.
fn list_of(program: &str) -> Option<ReadOnlyArgs> {
    Some(match program {
        "true" | "false" | ":" => accepts("", "", ""),
        "pwd" => options_only("LP", ""),
        "whoami" | "groups" | "logname" | "arch" | "hostname" => options_only("", ""),
        "id" => options_only("ugGnrz", "user group groups name real zero"),
        "uname" => options_only("asnrvmpio", "all kernel-name nodename kernel-release machine operating-system"),
        "nproc" => options_only("", "all"),
        "uptime" => options_only("ps", "pretty since"),
        "tty" => options_only("s", ""),
        "which" => accepts("a", "", ""),
        "type" => accepts("aftpP", "", ""),
        "ls" => accepts(
            "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
            "ITw",
            "all almost-all color? colour? human-readable reverse recursive sort= time= time-style= size inode \
             group-directories-first classify? si full-time no-group numeric-uid-gid directory file-type format= hide= \
             ignore= width= indicator-style= quoting-style= dereference escape literal",
        ),
        "cat" => accepts(
            "AbeEnstTuv",
            "",
            "show-all number number-nonblank show-ends show-tabs show-nonprinting squeeze-blank",
        ),
        "head" | "tail" => accepts("qvz#", "nc", "lines= bytes= quiet silent verbose zero-terminated"),
        "wc" => accepts("clmLw", "", "bytes chars lines words max-line-length"),
        "grep" | "egrep" | "fgrep" => accepts(
            "EFGPivwxcLlqsHhbnrToazUyI#",
            "eABCmfd",
            "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp \
             line-regexp count files-without-match files-with-matches quiet silent no-messages with-filename no-filename \
             byte-offset line-number recursive only-matching text null null-data regexp= after-context= before-context= \
             context= max-count= color? colour? include= exclude= exclude-dir= binary-files= label= initial-tab",
        ),
        "rg" => accepts(
            "isSFwxvclnNHIqopUPauh0",
            "egtTABCmMjdrE",
            "files hidden no-ignore no-ignore-vcs no-config count count-matches line-number no-line-number heading \
             no-heading color= glob= iglob= type= type-not= type-list max-count= max-depth= max-filesize= max-columns= \
             context= after-context= before-context= ignore-case smart-case case-sensitive fixed-strings word-regexp \
             line-regexp invert-match files-with-matches files-without-match only-matching multiline multiline-dotall \
             pcre2 text trim vimgrep json sort= sortr= null replace= stats no-messages quiet with-filename no-filename \
             column byte-offset regexp= passthru unrestricted",
        ),
        "stat" => accepts("Lft", "c", "format= printf= terse dereference file-system"),
        "file" => accepts(
            "bhikLNnr0",
            "",
            "brief mime mime-type mime-encoding keep-going dereference no-dereference extension",
        ),
        "du" => accepts(
            "abchHklmsSx0",
            "dt",
            "all apparent-size bytes total human-readable max-depth= summarize one-file-system exclude= threshold= si \
             separate-dirs",
        ),
        "df" => accepts("ahHiklPT", "", "all human-readable inodes local portability print-type total si"),
        "basename" => accepts("az", "s", "multiple suffix= zero"),
        "dirname" => accepts("z", "", "zero"),
        "realpath" => {
            accepts("emLPsqz", "", "relative-to= relative-base= canonicalize-existing canonicalize-missing no-symlinks")
        }
        "readlink" => accepts("femnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
        "cut" => {
            accepts("nsz", "bcdf", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter=")
        }
        "tr" => accepts("cCdst", "", "complement delete squeeze-repeats truncate-set1"),
        "nl" => accepts("p", "bdfhilnsvw", ""),
        "tac" => accepts("br", "s", ""),
        "rev" => accepts("", "", ""),
        "fold" => accepts("bs#", "w", "width= spaces bytes"),
        "expand" => accepts("i", "t", "tabs= initial"),
        "unexpand" => accepts("a", "t", "tabs= all first-only"),
        "paste" => accepts("sz", "d", "serial delimiters="),
        "join" => accepts("iz", "12aejotv", "ignore-case header check-order nocheck-order"),
        "comm" => accepts("123z", "", "check-order nocheck-order total output-delimiter="),
        "cmp" => accepts("bls", "in", "print-bytes verbose silent quiet bytes= ignore-initial="),
        "diff" => accepts(
            "abBcdEeHinNpqrstTuwyZ#",
            "UCWxIF",
            "brief unified? context? side-by-side recursive ignore-all-space ignore-space-change ignore-blank-lines \
             ignore-case new-file text color? report-identical-files minimal suppress-common-lines width= exclude= label=",
        ),
        "sort" => accepts(
            "bdfghiMnRrVcCmsuz",
            "kt",
            "reverse numeric-sort unique ignore-case key= field-separator= human-numeric-sort version-sort \
             general-numeric-sort stable check? zero-terminated month-sort random-sort dictionary-order \
             ignore-leading-blanks ignore-nonprinting",
        ),
        // The second file is the output.
        "uniq" => ReadOnlyArgs {
            operands: 1,
            ..accepts(
                "cdDiuz",
                "fsw",
                "count repeated unique ignore-case skip-fields= skip-chars= check-chars= zero-terminated",
            )
        },
        "od" => accepts("abcdfhilosxv", "AjNt", "address-radix= skip-bytes= read-bytes= format= output-duplicates"),
        "column" => accepts("tex", "scoN", "table separator= output-separator="),
        "base64" => accepts("di", "w", "decode ignore-garbage wrap="),
        "seq" => accepts("w#", "fs", "format= separator= equal-width"),
        "tree" => accepts(
            "adfilpsugDhtrnqvFcxNQSUXJ",
            "LPI",
            "noreport dirsfirst filesfirst gitignore prune filelimit= du si inodes device sort= matchdirs ignore-case",
        ),
        _ if holds(SUMS, program) => accepts("bt", "", "binary text tag zero"),
        _ => return None,
    })
}

/// Tests and actions of find, without those that run, write or delete.
const FIND: &str = "-H -P -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type \
    -xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -newermt -newerct -perm -user -group -uid \
    -gid -nouser -nogroup -empty -executable -readable -writable -maxdepth -mindepth -depth -mount -xdev -prune -print \
    -print0 -printf -ls -not -a -and -o -or -true -false -quit -links -inum -samefile -daystart -lname -ilname";

/// Operators of `test` and `[`, without those that evaluate variables.
const TEST: &str =
    "-e -f -d -s -r -w -x -L -h -n -z -nt -ot -ef -b -c -p -S -O -G -u -g -k -eq -ne -lt -le -gt -ge -a -o";

const GIT_DIFF: &str = "stat? name-only name-status numstat shortstat summary cached staged patch no-patch raw minimal \
    patience histogram diff-algorithm? unified? word-diff? color? no-color color-words? no-renames find-renames? \
    find-copies? check full-index abbrev? binary text ignore-all-space ignore-space-change ignore-blank-lines \
    ignore-space-at-eol ignore-cr-at-eol function-context exit-code quiet diff-filter? pickaxe-regex compact-summary \
    no-prefix inter-hunk-context? no-ext-diff no-textconv merge-base";
const GIT_LOG: &str = "oneline graph all decorate? no-decorate abbrev-commit no-abbrev-commit follow max-count= skip= \
    since= after= until= before= author= committer= grep= invert-grep all-match regexp-ignore-case extended-regexp \
    fixed-strings perl-regexp merges no-merges first-parent reverse date= pretty? format? branches? tags? remotes? \
    topo-order date-order author-date-order left-right cherry-pick cherry-mark no-walk full-history \
    simplify-by-decoration ancestry-path boundary source parents children relative-date walk-reflogs no-notes cc";

/// Returns the arguments that a git subcommand may have, with a second list of long options.
fn list_of_git(name: &str) -> Option<(ReadOnlyArgs, &'static str)> {
    Some(match name {
        "status" => (
            accepts(
                "sbvuno",
                "",
                "short branch porcelain? long verbose untracked-files? ignored? show-stash no-renames",
            ),
            "",
        ),
        "diff" => (accepts("puszwbaRMCBW", "USG", GIT_DIFF), ""),
        "log" | "show" | "whatchanged" => (accepts("puszwbaRMCBWgiEFPc#", "USGnL", GIT_LOG), GIT_DIFF),
        "blame" => (accepts("lwstefnMCp#", "L", "line-porcelain porcelain show-email show-name show-number date="), ""),
        "shortlog" => (accepts("sne", "", "summary numbered email since= until= author= no-merges all"), ""),
        "rev-parse" => (
            accepts(
                "q",
                "",
                "abbrev-ref? short? show-toplevel verify git-dir is-inside-work-tree show-prefix symbolic-full-name quiet \
                 show-cdup is-bare-repository absolute-git-dir git-common-dir",
            ),
            "",
        ),
        "rev-list" => (
            accepts(
                "#",
                "n",
                "count all max-count= since= until= left-right first-parent no-merges merges reverse author= \
                 abbrev-commit parents",
            ),
            "",
        ),
        "ls-files" => (
            accepts(
                "cdmostkuvzi",
                "x",
                "cached deleted modified others stage exclude-standard full-name error-unmatch exclude= directory \
                 unmerged",
            ),
            "",
        ),
        "ls-tree" => (accepts("drtlz", "", "name-only name-status long full-tree full-name abbrev?"), ""),
        "merge-base" => (accepts("a", "", "all is-ancestor fork-point octopus"), ""),
        "name-rev" => (accepts("", "", "name-only tags always"), ""),
        "show-ref" => (accepts("dqs", "", "heads tags verify head quiet"), ""),
        "for-each-ref" => (accepts("", "", "count= sort= format? merged? no-merged? contains? points-at="), ""),
        // `--dirty` and `--broken` write the index to determine the state.
        "describe" => (
            accepts(
                "",
                "",
                "tags all long always abbrev? match= exact-match contains first-parent exclude= candidates=",
            ),
            "",
        ),
        "cat-file" => (accepts("tspe", "", ""), ""),
        "count-objects" => (options_only("vH", "verbose human-readable"), ""),
        "cherry" => (accepts("v", "", ""), ""),
        "grep" => (
            accepts(
                "niwvEFGPclLhHaIqWp#",
                "eABCm",
                "line-number ignore-case word-regexp invert-match files-with-matches files-without-match count cached \
                 untracked color? heading break show-function function-context and or not all-match max-depth= context= \
                 after-context= before-context= name-only extended-regexp fixed-strings perl-regexp only-matching column \
                 full-name",
            ),
            "",
        ),
        "branch" => (options_only("arv", "list all remotes show-current no-color verbose"), ""),
        _ => return None,
    })
}
