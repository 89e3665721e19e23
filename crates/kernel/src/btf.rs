//! Offsets of kernel structure fields, read from the running kernel's BTF.
//!
//! rustc emits no CO-RE relocations, so the loader patches offsets instead. Format:
//! <https://docs.kernel.org/bpf/btf.html>.

use mcpmon_common::{offsets::Offsets, tap::TapOffsets};
use nix::libc;

/// The file in which the kernel publishes its own type information.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// The reason why offsets could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    /// The file is missing or unreadable.
    #[error("failed to read {KERNEL_BTF}: the kernel must be built with CONFIG_DEBUG_INFO_BTF")]
    Read(#[source] std::io::Error),
    /// The bytes are not valid BTF.
    #[error("the kernel's type information is malformed: {0}")]
    Malformed(&'static str),
    /// The kernel has no field that this program needs.
    #[error("this kernel has no field `{structure}.{field}`: it is not supported")]
    Missing {
        /// Structure name.
        structure: &'static str,
        /// The field names that were searched for.
        field: &'static str,
    },
}

/// Offsets for the running kernel.
///
/// # Errors
/// Returns an error if the kernel has no BTF, or lacks a field.
pub fn kernel_offsets() -> Result<Offsets, BtfError> {
    offsets(&std::fs::read(KERNEL_BTF).map_err(BtfError::Read)?)
}

/// Reads offsets from BTF bytes.
///
/// # Errors
/// Returns an error if the bytes are malformed, or a field is missing.
pub fn offsets(bytes: &[u8]) -> Result<Offsets, BtfError> {
    let btf = Btf::parse(bytes)?;
    let (ctime_sec, ctime_nsec) = btf.change_time()?;
    Ok(Offsets {
        task_tgid: btf.field("task_struct", "tgid")?,
        task_pid: btf.field("task_struct", "pid")?,
        task_real_parent: btf.field("task_struct", "real_parent")?,
        task_group_leader: btf.field("task_struct", "group_leader")?,
        task_start_boottime: btf.either("task_struct", "start_boottime", "real_start_time")?,
        task_mm: btf.field("task_struct", "mm")?,
        task_signal: btf.field("task_struct", "signal")?,
        task_exit_code: btf.field("task_struct", "exit_code")?,
        signal_live: btf.field("signal_struct", "live")?,
        signal_group_exit_code: btf.field("signal_struct", "group_exit_code")?,
        signal_pids: btf.field("signal_struct", "pids")?,
        mm_arg_start: btf.field("mm_struct", "arg_start")?,
        mm_arg_end: btf.field("mm_struct", "arg_end")?,
        bprm_file: btf.field("linux_binprm", "file")?,
        bprm_filename: btf.field("linux_binprm", "filename")?,
        file_path: btf.either("file", "f_path", "__f_path")?,
        file_inode: btf.field("file", "f_inode")?,
        inode_ino: btf.field("inode", "i_ino")?,
        inode_sb: btf.field("inode", "i_sb")?,
        inode_size: btf.field("inode", "i_size")?,
        inode_ctime_sec: ctime_sec,
        inode_ctime_nsec: ctime_nsec,
        inode_nlink: btf.either("inode", "i_nlink", "__i_nlink")?,
        inode_uid: btf.field("inode", "i_uid")?,
        sb_dev: btf.field("super_block", "s_dev")?,
        task_comm: btf.field("task_struct", "comm")?,
        skb_sk: btf.field("sk_buff", "sk")?,
        sock_lock_owned: btf.within("sock", "sk_lock", "owned")?,
        sock_max_ack_backlog: btf.field("sock", "sk_max_ack_backlog")?,
        sock_is_kernel_bit: btf.bit("sock", "sk_kern_sock")?,
        sock_cookie: btf.field("sock_common", "skc_cookie")?,
        tcp_is_mptcp_bit: btf.bit("tcp_sock", "is_mptcp").unwrap_or(Offsets::ABSENT),
        connection_ulp_data: btf.field("inet_connection_sock", "icsk_ulp_data")?,
        subflow_connection: btf
            .field("mptcp_subflow_context", "conn")
            .unwrap_or(Offsets::ABSENT),
        sock_addr_sk: btf.field("bpf_sock_addr_kern", "sk")?,
        sock_flags: btf.field("sock_common", "skc_flags")?,
        tcp_bytes_sent: btf.field("tcp_sock", "bytes_sent")?,
        tcp_bytes_retrans: btf.field("tcp_sock", "bytes_retrans")?,
        tcp_bytes_acked: btf.field("tcp_sock", "bytes_acked")?,
        tcp_bytes_received: btf.field("tcp_sock", "bytes_received")?,
        tcp_write_seq: btf.field("tcp_sock", "write_seq")?,
        tcp_snd_nxt: btf.field("tcp_sock", "snd_nxt")?,
    })
}

/// Reads the offsets for the tap of the running kernel.
///
/// # Errors
/// Returns an error if the kernel has no BTF, or lacks a field.
pub fn kernel_tap_offsets() -> Result<TapOffsets, BtfError> {
    tap_offsets(&std::fs::read(KERNEL_BTF).map_err(BtfError::Read)?)
}

fn tap_offsets(bytes: &[u8]) -> Result<TapOffsets, BtfError> {
    let btf = Btf::parse(bytes)?;
    let number = |call: libc::c_long| u32::try_from(call).unwrap_or(u32::MAX);
    let (call, arguments, mode) = btf.registers()?;
    Ok(TapOffsets {
        task_tgid: btf.field("task_struct", "tgid")?,
        task_signal: btf.field("task_struct", "signal")?,
        signal_live: btf.field("signal_struct", "live")?,
        task_files: btf.field("task_struct", "files")?,
        files_table: btf.field("files_struct", "fdt")?,
        table_files: btf.field("fdtable", "fd")?,
        table_size: btf.field("fdtable", "max_fds")?,
        file_inode: btf.field("file", "f_inode")?,
        inode_ino: btf.field("inode", "i_ino")?,
        inode_sb: btf.field("inode", "i_sb")?,
        sb_dev: btf.field("super_block", "s_dev")?,
        call,
        arguments,
        mode,
        mode_of_64_bits: USER_CS,
        reads: [
            libc::SYS_read,
            libc::SYS_readv,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
        ]
        .map(number),
        writes: [
            libc::SYS_write,
            libc::SYS_writev,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
        ]
        .map(number),
    })
}

/// The code segment of 64-bit programs on x86-64 (`__USER_CS`).
const USER_CS: u32 = 0x33;

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_TYPEDEF: u32 = 8;
/// Anonymous structures nest a few levels in the kernel; deeper nesting is malformed or hostile.
const MAX_DEPTH: u32 = 16;

struct Btf<'a> {
    strings: &'a [u8],
    /// Types by id; id 0 is `void`.
    types: Vec<Type<'a>>,
}

#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    info: u32,
    /// Size in bytes, or the id of the type to which this one refers.
    size_or_type: u32,
    /// Bytes after the common part: the members of a structure.
    data: &'a [u8],
}

impl Type<'_> {
    const fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    const fn is_composite(&self) -> bool {
        matches!(self.kind(), KIND_STRUCT | KIND_UNION)
    }
}

impl<'a> Btf<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let malformed = BtfError::Malformed;
        let header = |offset| word(bytes, offset).ok_or_else(|| malformed("header cut short"));
        if header(0)? & 0xffff != u32::from(MAGIC) {
            return Err(malformed("wrong magic number"));
        }
        let header_len = header(4)? as usize;
        let section = |offset: u32, length: u32| {
            let start = header_len.checked_add(offset as usize)?;
            bytes.get(start..start.checked_add(length as usize)?)
        };
        let types =
            section(header(8)?, header(12)?).ok_or_else(|| malformed("type section out of bounds"))?;
        let strings =
            section(header(16)?, header(20)?).ok_or_else(|| malformed("string section out of bounds"))?;
        Ok(Self {
            strings,
            types: Self::types(types)?,
        })
    }

    fn types(mut rest: &'a [u8]) -> Result<Vec<Type<'a>>, BtfError> {
        let mut types = vec![Type {
            name: 0,
            info: 0,
            size_or_type: 0,
            data: &[],
        }];
        while !rest.is_empty() {
            let cut_short = BtfError::Malformed("type cut short");
            let (Some(name), Some(info), Some(size_or_type)) = (word(rest, 0), word(rest, 4), word(rest, 8))
            else {
                return Err(cut_short);
            };
            let count = (info & 0xffff) as usize;
            let extra = match info >> 24 & 0x1f {
                2 | 7..=12 | 16 | 18 => 0,
                1 | 14 | 17 => 4,
                3 => 12,
                KIND_STRUCT | KIND_UNION | 15 | 19 => count * 12,
                6 | 13 => count * 8,
                _ => return Err(BtfError::Malformed("unknown kind of type")),
            };
            let Some((data, behind)) = rest.get(12..).and_then(|data| data.split_at_checked(extra)) else {
                return Err(cut_short);
            };
            types.push(Type {
                name,
                info,
                size_or_type,
                data,
            });
            rest = behind;
        }
        Ok(types)
    }

    fn name(&self, offset: u32) -> &'a [u8] {
        let tail = self.strings.get(offset as usize..).unwrap_or_default();
        tail.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// Returns the byte offset of a field, searched for in every structure of that name and in its anonymous members.
    fn field(&self, structure: &'static str, field: &'static str) -> Result<u32, BtfError> {
        self.bit(structure, field).map(|bits| bits / 8)
    }

    /// Returns the offsets in `pt_regs` of the number of a system call, its first four arguments, and the mode of the
    /// program, on x86-64 or aarch64. On aarch64 the first argument is overwritten by the result, and a copy is kept
    /// elsewhere.
    fn registers(&self) -> Result<(u32, [u32; 4], u32), BtfError> {
        let field = |name| self.field("pt_regs", name);
        if let Ok(call) = field("orig_ax") {
            let arguments = [field("di")?, field("si")?, field("dx")?, field("r10")?];
            return Ok((call, arguments, field("cs")?));
        }
        let first = field("regs")?;
        let arguments = [field("orig_x0")?, first + 8, first + 16, first + 24];
        Ok((field("syscallno")?, arguments, Offsets::ABSENT))
    }

    /// Returns the offset of a field in bits, which may be a bit field; searched for like [`Btf::field`].
    fn bit(&self, structure: &'static str, field: &'static str) -> Result<u32, BtfError> {
        self.types
            .iter()
            .filter(|t| t.kind() == KIND_STRUCT && self.name(t.name) == structure.as_bytes())
            .find_map(|t| self.bit_offset(t, field.as_bytes(), 0))
            .ok_or(BtfError::Missing { structure, field })
    }

    /// Returns the byte offset of a field in a member that is a structure.
    fn within(
        &self,
        structure: &'static str,
        member: &'static str,
        field: &'static str,
    ) -> Result<u32, BtfError> {
        let missing = BtfError::Missing {
            structure,
            field: member,
        };
        let outer = self.field(structure, member)?;
        let inner = self
            .types
            .iter()
            .filter(|t| t.kind() == KIND_STRUCT && self.name(t.name) == structure.as_bytes())
            .flat_map(|t| t.data.chunks_exact(12))
            .find(|found| word(found, 0).is_some_and(|name| self.name(name) == member.as_bytes()))
            .and_then(|found| self.resolved(word(found, 4)?));
        let inner = inner.ok_or(missing)?;
        let bits = self
            .bit_offset(inner, field.as_bytes(), 0)
            .ok_or(BtfError::Missing {
                structure: member,
                field,
            })?;
        Ok(outer + bits / 8)
    }

    /// Returns the type behind its typedefs.
    fn resolved(&self, id: u32) -> Option<&Type<'a>> {
        let mut found = self.types.get(id as usize)?;
        for _ in 0..MAX_DEPTH {
            if found.kind() != KIND_TYPEDEF {
                return Some(found);
            }
            found = self.types.get(found.size_or_type as usize)?;
        }
        None
    }

    fn either(&self, structure: &'static str, new: &'static str, old: &'static str) -> Result<u32, BtfError> {
        match (self.field(structure, new), self.field(structure, old)) {
            (Ok(offset), _) | (Err(_), Ok(offset)) => Ok(offset),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Finds `i_ctime_sec` and `i_ctime_nsec` (6.11), `__i_ctime` (6.6), or `i_ctime`.
    fn change_time(&self) -> Result<(u32, u32), BtfError> {
        if let Ok(seconds) = self.field("inode", "i_ctime_sec") {
            return Ok((seconds, self.field("inode", "i_ctime_nsec")?));
        }
        let time = self.either("inode", "__i_ctime", "i_ctime")?;
        Ok((time, time + self.field("timespec64", "tv_nsec")?))
    }

    fn bit_offset(&self, composite: &Type<'_>, field: &[u8], depth: u32) -> Option<u32> {
        let bitfields = composite.info >> 31 == 1;
        composite.data.chunks_exact(12).find_map(|member| {
            let name = self.name(word(member, 0)?);
            let offset = word(member, 8)?;
            let offset = if bitfields { offset & 0x00ff_ffff } else { offset };
            if name == field {
                return Some(offset);
            }
            let inner = self.types.get(word(member, 4)? as usize)?;
            if !name.is_empty() || !inner.is_composite() || depth == MAX_DEPTH {
                return None;
            }
            self.bit_offset(inner, field, depth + 1)
                .map(|within| offset + within)
        })
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types: `struct outer { int a; struct { int b; }; named_t c; }`, an `int`, an anonymous structure, and `named_t`,
    /// a typedef of that structure.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0outer\0a\0b\0c\0named_t\0";
        let types: [&[u32]; 4] = [
            &[1, 1 << 24, 4, 32],
            &[0, 4 << 24 | 1, 4, 13, 1, 0],
            &[5, 4 << 24 | 3, 12, 11, 1, 0, 0, 2, 32, 15, 4, 64],
            &[17, 8 << 24, 2],
        ];
        let types: Vec<u8> = types
            .concat()
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let header = [
            u32::from(MAGIC) | 1 << 16,
            24,
            0,
            types.len() as u32,
            types.len() as u32,
            strings.len() as u32,
        ];
        let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend(types);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn fields_are_found_inside_anonymous_structures() {
        let bytes = sample();
        let btf = Btf::parse(&bytes).expect("sample");
        assert_eq!(btf.field("outer", "a").expect("a"), 0);
        assert_eq!(btf.field("outer", "b").expect("b"), 4);
        assert_eq!(btf.within("outer", "c", "b").expect("b of c"), 8);
        for (member, field, named) in [("d", "b", "outer.d"), ("c", "a", "c.a"), ("a", "b", "a.b")] {
            let missing = btf
                .within("outer", member, field)
                .expect_err("no such field")
                .to_string();
            assert_eq!(
                missing,
                format!("this kernel has no field `{named}`: it is not supported")
            );
        }
        let missing = btf.field("outer", "d").expect_err("no such field").to_string();
        assert_eq!(missing, "this kernel has no field `outer.d`: it is not supported");
    }

    #[test]
    fn cut_or_altered_bytes_are_errors_not_panics() {
        let bytes = sample();
        for length in 0..bytes.len() {
            if let Ok(btf) = Btf::parse(&bytes[..length]) {
                assert!(btf.field("outer", "a").is_err(), "cut at {length}");
            }
        }
        for index in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[index] ^= 0xff;
            if let Ok(btf) = Btf::parse(&altered) {
                drop(btf.field("outer", "b"));
                drop(btf.within("outer", "c", "b"));
            }
        }
    }

    #[test]
    fn the_running_kernel_has_every_field() {
        if !std::path::Path::new(KERNEL_BTF).exists() {
            assert!(
                std::env::var_os("CI").is_none(),
                "no {KERNEL_BTF}: this test needs a kernel with BTF"
            );
            return;
        }
        let offsets = kernel_offsets().expect("offsets");
        assert!(
            offsets.task_tgid > 0 && offsets.mm_arg_end == offsets.mm_arg_start + 8,
            "{offsets:?}"
        );
        let tap = kernel_tap_offsets().expect("offsets of the tap");
        assert_eq!(tap.task_tgid, offsets.task_tgid);
        assert_ne!(tap.arguments[0], tap.arguments[1], "{tap:?}");
    }
}
