#!/usr/bin/env python3
"""Write an OCI image archive from a folder: oci.py OUT.tar ROOT CONFIG-JSON NAME [NAME ...].

Deterministic: owners are root, times are zero, entries are sorted, so equal inputs give equal digests.
"""
import gzip
import hashlib
import io
import json
import os
import platform
import sys
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def layer(root):
    """The folder as an uncompressed tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(folders) + sorted(files):
                path = os.path.join(folder, name)
                entry = archive.gettarinfo(path, os.path.relpath(path, root))
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = "root"
                if entry.isreg():
                    with open(path, "rb") as content:
                        archive.addfile(entry, content)
                else:
                    archive.addfile(entry)
    return buffer.getvalue()


def blob(data, blobs):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"digest": digest, "size": len(data)}


def image(root, config, names):
    """All files of the archive, by path."""
    blobs = {}
    raw = layer(root)
    packed = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **blob(gzip.compress(raw, 1, mtime=0), blobs)}
    diff = "sha256:" + hashlib.sha256(raw).hexdigest()
    configuration = {"architecture": ARCHITECTURE, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": [diff]}}
    described = {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(json.dumps(configuration).encode(), blobs)}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": described, "layers": [packed]}
    target = {"mediaType": manifest["mediaType"], **blob(json.dumps(manifest).encode(), blobs)}
    entries = [{**target, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
    files.update({"blobs/" + digest.replace(":", "/"): data for digest, data in blobs.items()})
    return files


def main(out, root, config, *names):
    files = image(root, json.loads(config), names)
    with tarfile.open(out + ".part", "w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
