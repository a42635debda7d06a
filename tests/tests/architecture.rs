//! The style and the structure are tests: a forbidden edge between crates, a `mod.rs`, a crate without its head, a
//! file or function that outgrew its bound fails here, not in review.
#![expect(clippy::unwrap_used, reason = "test helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 800;
const MAX_FUNCTION_LINES: usize = 70;
/// What every crate's head must tell, beside its purpose.
const HEAD_WORDS: [&str; 5] = ["now", "Start at", "Flow", "nvariants", "Bounds"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Which of our crates each of our crates may depend on. Whoever is missing here may depend on anything.
fn allowed_edges() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let leaf = ["quorate-api", "quorate-env"];
    BTreeMap::from([
        ("quorate-env", BTreeSet::new()),
        ("quorate-api", BTreeSet::new()),
        ("quorate-raft-store", BTreeSet::from(["quorate-env"])),
        ("quorate-apiserver", BTreeSet::from(["quorate-api", "quorate-env", "quorate-raft-store"])),
        ("quorate-scheduler", BTreeSet::from(leaf)),
        ("quorate-controllers", BTreeSet::from(leaf)),
        ("quorate-node", BTreeSet::from(leaf)),
        (
            "quorate",
            BTreeSet::from([
                "quorate-api",
                "quorate-env",
                "quorate-raft-store",
                "quorate-apiserver",
                "quorate-scheduler",
                "quorate-controllers",
                "quorate-node",
            ]),
        ),
    ])
}

#[test]
fn crates_depend_only_on_what_the_design_allows() {
    let metadata =
        cargo_metadata::MetadataCommand::new().no_deps().other_options(vec!["--offline".into()]).exec().unwrap();
    let ours: BTreeSet<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let allowed = allowed_edges();
    let mut forbidden = Vec::new();
    for package in &metadata.packages {
        let edges = package.dependencies.iter().filter(|edge| ours.contains(&edge.name));
        for edge in edges {
            let known = allowed.get(package.name.as_str());
            let nothing_may = ["quorate-tests", "quorate-bench"].contains(&edge.name.as_str());
            if nothing_may || known.is_some_and(|known| !known.contains(edge.name.as_str())) {
                forbidden.push(format!("{} -> {}", package.name, edge.name));
            }
        }
    }
    assert_eq!(forbidden, Vec::<String>::new(), "edges that DESIGN §2 forbids");
}

fn rust_files() -> Vec<PathBuf> {
    let mut folders = vec![repository()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn no_module_is_called_mod() {
    let found: Vec<PathBuf> = rust_files().into_iter().filter(|path| path.ends_with("mod.rs")).collect();
    assert_eq!(found, Vec::<PathBuf>::new(), "use `foo.rs` beside `foo/`");
}

#[test]
fn every_crate_begins_with_its_head() {
    let mut missing = Vec::new();
    for path in rust_files().into_iter().filter(|path| path.ends_with("src/lib.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for word in HEAD_WORDS.iter().filter(|word| !head.contains(**word)) {
            missing.push(format!("{}: {word:?}", path.display()));
        }
    }
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "heads of lib.rs lack what the crate knows, where to start, flow, invariants or bounds"
    );
}

#[test]
fn files_stay_below_their_bound() {
    let mut long = Vec::new();
    for path in rust_files() {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        if lines > MAX_FILE_LINES {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert_eq!(long, Vec::<String>::new(), "split what is more than one idea");
}

#[test]
fn functions_fit_a_screen_or_say_why() {
    let mut long = Vec::new();
    for path in rust_files() {
        let text = std::fs::read_to_string(&path).unwrap();
        long.extend(
            long_functions(&text).into_iter().map(|(line, length)| format!("{}:{line}: {length}", path.display())),
        );
    }
    assert_eq!(long, Vec::<String>::new(), "functions over {MAX_FUNCTION_LINES} lines without a stated reason");
}

/// (line, length) of each function over the bound without an `#[expect(clippy::too_many_lines, reason = …)]`. A
/// formatted function ends at the first closing brace with its own indentation.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let indentation = line.len() - body.len();
        let signature = body.split("fn ").next().unwrap_or_default();
        let is_function = body.contains("fn ")
            && signature
                .split_whitespace()
                .all(|w| ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"].contains(&w));
        if !is_function || body.ends_with(';') || body.ends_with('}') {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indentation));
        let length = lines[start..].iter().position(|line| *line == closing).map_or(0, |at| at + 1);
        let excused = lines[start.saturating_sub(6)..start].iter().any(|line| line.contains("too_many_lines"));
        if length > MAX_FUNCTION_LINES && !excused {
            long.push((start + 1, length));
        }
    }
    long
}

#[test]
fn a_long_function_is_found_and_an_excused_one_is_not() {
    let body = "    x();\n".repeat(MAX_FUNCTION_LINES);
    let plain = format!("pub async fn long() {{\n{body}}}\n");
    assert_eq!(long_functions(&plain), [(1, MAX_FUNCTION_LINES + 2)]);
    let excused = format!("#[expect(clippy::too_many_lines, reason = \"a table\")]\n{plain}");
    assert_eq!(long_functions(&excused), []);
}

#[test]
fn nothing_is_left_for_later_without_saying_so() {
    let words = ["todo!(", "unimplemented!(", "#[ignore", "#[allow("];
    let mut found = Vec::new();
    for path in rust_files().into_iter().filter(|path| !path.ends_with("tests/architecture.rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}", path.display(), number + 1));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new(), "stubs, skipped tests or unexplained allowances");
}
