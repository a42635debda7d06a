//! Stamps the commit into the binary.

use std::process::Command;

fn main() {
    let log = Command::new("git").args(["rev-parse", "--git-path", "logs/HEAD"]).output();
    if let Some(path) = log.ok().filter(|output| output.status.success()) {
        println!("cargo::rerun-if-changed={}", String::from_utf8_lossy(&path.stdout).trim());
    }
    let described = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let commit = match described {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(_) | Err(_) => "unknown".to_owned(),
    };
    println!("cargo::rustc-env=QUORATE_COMMIT={commit}");
}
