//! Writing of an initramfs: the `newc` archive that the kernel unpacks into its root before `/init` runs.

/// One member of the archive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Member<'a> {
    /// A directory.
    Directory,
    /// A regular file, readable and executable by all.
    Program(&'a [u8]),
    /// A regular file, readable by all.
    File(&'a [u8]),
    /// A character device: major and minor number.
    Device(u32, u32),
}

/// An archive under construction.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    members: u32,
}

impl Archive {
    /// Adds a member; its parent directory must have been added before.
    pub(crate) fn add(&mut self, path: &str, member: Member<'_>) {
        let (mode, content, device) = match member {
            Member::Directory => (0o040_755, &[][..], (0, 0)),
            Member::Program(content) => (0o100_755, content, (0, 0)),
            Member::File(content) => (0o100_644, content, (0, 0)),
            Member::Device(major, minor) => (0o020_600, &[][..], (major, minor)),
        };
        self.members += 1;
        self.append(path, mode, content, device);
    }

    /// Returns the finished archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.append("TRAILER!!!", 0, &[], (0, 0));
        self.bytes
    }

    /// Appends a member: the magic, thirteen eight-digit hexadecimal fields, the name and the content; each is padded
    /// to 4.
    fn append(&mut self, name: &str, mode: u32, content: &[u8], device: (u32, u32)) {
        let size = u32::try_from(content.len()).expect("the kernel takes members below 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("names are short");
        let inode = self.members;
        let fields = [
            inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Found {
        name: String,
        mode: u32,
        device: (u32, u32),
        content: Vec<u8>,
    }

    fn found(name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> Found {
        Found {
            name: name.to_owned(),
            mode,
            device,
            content: content.to_vec(),
        }
    }

    /// Reads the archive back as the description of the format says.
    fn members(mut bytes: &[u8]) -> Vec<Found> {
        let mut members = Vec::new();
        loop {
            let field = |index: usize| {
                let text = std::str::from_utf8(&bytes[6 + index * 8..][..8]).expect("digits");
                u32::from_str_radix(text, 16).expect("hexadecimal")
            };
            assert_eq!(&bytes[..6], b"070701");
            let (mode, size, device, name_size) = (field(1), field(6), (field(9), field(10)), field(11));
            let name = &bytes[110..][..name_size as usize - 1];
            let content_at = (110 + name_size as usize).next_multiple_of(4);
            let content = &bytes[content_at..][..size as usize];
            if name == b"TRAILER!!!" {
                return members;
            }
            members.push(found(&String::from_utf8_lossy(name), mode, device, content));
            bytes = &bytes[(content_at + size as usize).next_multiple_of(4)..];
        }
    }

    #[test]
    fn members_are_read_back_as_they_were_added() {
        let mut archive = Archive::default();
        archive.add("dev", Member::Directory);
        archive.add("dev/console", Member::Device(5, 1));
        archive.add("init", Member::Program(b"#!/bin/sh\n"));
        archive.add("odd", Member::File(b"12345"));
        assert_eq!(
            members(&archive.finish()),
            [
                found("dev", 0o040_755, (0, 0), b""),
                found("dev/console", 0o020_600, (5, 1), b""),
                found("init", 0o100_755, (0, 0), b"#!/bin/sh\n"),
                found("odd", 0o100_644, (0, 0), b"12345"),
            ]
        );
    }

    #[test]
    fn every_part_is_aligned_to_four_bytes() {
        for length in 0..9 {
            let mut archive = Archive::default();
            archive.add("x", Member::File(&vec![7; length]));
            assert_eq!(archive.finish().len() % 4, 0, "{length}");
        }
    }
}
