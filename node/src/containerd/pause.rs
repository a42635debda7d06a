//! The image that holds a pod's namespaces, made here: sandboxes need it before anything could be pulled.
//!
//! Its one program waits for ever and lets the kernel reap the children it may inherit.

use serde_json::json;
use sha2::{Digest, Sha256};

/// Registries are asked for nothing under this name: it is always there.
pub const IMAGE: &str = "docker.io/quorate/pause:1";

const BLOCK: usize = 512;
/// Where the program is mapped, and where its first instruction is: behind the two headers.
const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// `rt_sigaction(SIGCHLD, SIG_IGN)`, then `pause()` for ever.
const CODE_X86_64: [u8; 68] = [
    0xb8, 0x0d, 0, 0, 0, // mov eax, rt_sigaction
    0xbf, 0x11, 0, 0, 0, // mov edi, SIGCHLD
    0x48, 0x8d, 0x35, 0x13, 0, 0, 0, // lea rsi, action
    0x31, 0xd2, // xor edx, edx
    0x41, 0xba, 0x08, 0, 0, 0, // mov r10d, 8
    0x0f, 0x05, // syscall
    0xb8, 0x22, 0, 0, 0, // again: mov eax, pause
    0x0f, 0x05, // syscall
    0xeb, 0xf7, // jmp again
    1, 0, 0, 0, 0, 0, 0, 0, // action: SIG_IGN, no flags, no restorer, no mask
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The same with `ppoll()`, since this architecture has no `pause`.
const CODE_AARCH64: [u32; 22] = [
    0xd280_10c8, // mov x8, rt_sigaction
    0xd280_0220, // mov x0, SIGCHLD
    0x1000_0181, // adr x1, action
    0xd280_0002, // mov x2, 0
    0xd280_0103, // mov x3, 8
    0xd400_0001, // svc 0
    0xd280_0000, // again: mov x0, 0
    0xd280_0001, // mov x1, 0
    0xd280_0002, // mov x2, 0
    0xd280_0003, // mov x3, 0
    0xd280_0004, // mov x4, 0
    0xd280_0928, // mov x8, ppoll
    0xd400_0001, // svc 0
    0x17ff_fff9, // b again
    1,
    0,
    0,
    0,
    0,
    0,
    0,
    0, // action: SIG_IGN
];

const MACHINE_X86_64: u16 = 62;
const MACHINE_AARCH64: u16 = 183;

fn program() -> Vec<u8> {
    let (machine, code) = if cfg!(target_arch = "aarch64") {
        (MACHINE_AARCH64, CODE_AARCH64.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    } else {
        (MACHINE_X86_64, CODE_X86_64.to_vec())
    };
    let size = HEADERS + code.len() as u64;
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |out: &mut Vec<u8>, value: u16| out.extend(value.to_le_bytes());
    let word = |out: &mut Vec<u8>, value: u32| out.extend(value.to_le_bytes());
    let long = |out: &mut Vec<u8>, value: u64| out.extend(value.to_le_bytes());
    half(&mut out, 2); // executable
    half(&mut out, machine);
    word(&mut out, 1);
    long(&mut out, BASE + HEADERS); // entry
    long(&mut out, 64); // program header
    long(&mut out, 0); // no sections
    word(&mut out, 0);
    for value in [64, 56, 1, 64, 0, 0] {
        half(&mut out, value);
    }
    word(&mut out, 1); // load
    word(&mut out, 5); // read, execute
    for value in [0, BASE, BASE, size, size, 0x1000] {
        long(&mut out, value);
    }
    out.extend(code);
    out
}

/// An OCI image archive.
pub(super) fn archive() -> Vec<u8> {
    let layer = tar(&[("pause", &program(), 0o755)]);
    let config = json!({
        "architecture": crate::machine::architecture(),
        "os": "linux",
        "config": {"Entrypoint": ["/pause"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
    })
    .to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config.as_bytes()), "size": config.len()},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(&layer), "size": layer.len()}],
    })
    .to_string();
    let index = json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": digest(manifest.as_bytes()),
            "size": manifest.len(),
            "annotations": {"io.containerd.image.name": IMAGE},
        }],
    })
    .to_string();
    let blob = |bytes: &[u8]| digest(bytes).replace("sha256:", "blobs/sha256/");
    tar(&[
        ("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644),
        ("index.json", index.as_bytes(), 0o644),
        (&blob(&layer), &layer, 0o644),
        (&blob(config.as_bytes()), config.as_bytes(), 0o644),
        (&blob(manifest.as_bytes()), manifest.as_bytes(), 0o644),
    ])
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", crate::machine::hex(&Sha256::digest(bytes)))
}

fn tar(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes, mode) in files {
        let mut header = [0_u8; BLOCK];
        let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", bytes.len()));
        put(136, "00000000000");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar");
        put(263, "00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(header);
        out.extend(*bytes);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_runs_and_waits() {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::process::ExitStatusExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pause");
        std::fs::write(&path, program()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut child = std::process::Command::new(&path).spawn().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended by the kill, not by a fault");
    }

    #[test]
    fn the_archive_is_a_tar_that_others_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pause.tar");
        std::fs::write(&path, archive()).unwrap();
        let output = std::process::Command::new("tar").arg("tf").arg(&path).output().unwrap();
        let names = String::from_utf8(output.stdout).unwrap();
        assert!(names.starts_with("oci-layout\nindex.json\nblobs/sha256/"), "{names}");
    }
}
