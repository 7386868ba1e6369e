// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! etcd's write-ahead log: files that follow each other, frames with a running checksum. A tail that a crash has
//! torn is fine, since etcd cuts it off; anything else that does not add up is not. Reads no entries.
use std::path::Path;

use anyhow::{Context, ensure};

/// A frame of this type carries the checksum with which a file goes on from the one before.
const CRC: u64 = 4;
/// etcd's fixed head of every log.
const METADATA: u64 = 1;
/// Disks write so much at once: a record with a zeroed piece of this size was torn.
const SECTOR: usize = 512;

/// Checks all files of the log.
///
/// # Errors
/// Where a file is missing, or holds what etcd cannot have written.
pub(super) fn check(folder: &Path) -> anyhow::Result<()> {
    let files = super::files(folder, ".wal")?;
    ensure!(!files.is_empty(), "{} holds no log", folder.display());
    let mut sum = 0;
    let mut next = None;
    for (n, (name, path)) in files.iter().enumerate() {
        let number = name.split('-').next().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let number = number.with_context(|| format!("{name} is no name of a log file"))?;
        ensure!(next.is_none_or(|next| next == number), "a log file before {name} is missing");
        next = Some(number + 1);
        let last = n + 1 == files.len();
        sum = follow(&super::read(path)?, sum, last).with_context(|| format!("check {}", path.display()))?;
    }
    Ok(())
}

/// Goes through one file; the checksum at its end. Only the last file may end in a torn record.
fn follow(bytes: &[u8], before: u32, last: bool) -> anyhow::Result<u32> {
    let mut sum = before;
    let mut at = 0;
    let mut records = 0;
    while let Some(length) = frame(bytes, at)? {
        let begin = at + 8;
        let Some(record) = bytes.get(begin..begin + length.record) else {
            ensure!(last, "a record goes on beyond the end");
            break;
        };
        let Some(record) = Record::read(record) else {
            ensure!(last && torn(record, begin), "a record cannot be read at {at}");
            break;
        };
        if record.kind == CRC {
            // The first file of a log that was cut at its front goes on from a sum that nobody has any more.
            ensure!(sum == 0 || record.sum == sum, "the file does not go on from the one before");
            sum = record.sum;
        } else {
            sum = crc32c(sum, record.data);
            if record.sum != sum {
                ensure!(
                    last && torn(&bytes[begin..begin + length.record], begin),
                    "a checksum is wrong at {at}"
                );
                break;
            }
        }
        if records < 2 {
            let wanted = [CRC, METADATA][records];
            ensure!(record.kind == wanted, "record {records} is of type {}, not {wanted}", record.kind);
        }
        records += 1;
        at = begin + length.record + length.padding;
    }
    ensure!(records >= 2, "it does not begin as a log does");
    Ok(sum)
}

struct Length {
    record: usize,
    padding: usize,
}

/// The frame at a place; None at the end, and where the file is still empty.
fn frame(bytes: &[u8], at: usize) -> anyhow::Result<Option<Length>> {
    let Some(head) = bytes.get(at..at + 8) else { return Ok(None) };
    let field = u64::from_le_bytes(head.try_into()?);
    if field == 0 {
        return Ok(None);
    }
    let record = usize::try_from(field & 0x00FF_FFFF_FFFF_FFFF)?;
    let padding = if field >> 63 == 1 { usize::try_from((field >> 56) & 7)? } else { 0 };
    Ok(Some(Length { record, padding }))
}

/// Whether a piece of a disk's size was never written.
fn torn(record: &[u8], begin: usize) -> bool {
    let first = SECTOR - begin % SECTOR;
    let (head, rest) = record.split_at(first.min(record.len()));
    std::iter::once(head).chain(rest.chunks(SECTOR)).any(|piece| piece.iter().all(|byte| *byte == 0))
}

#[derive(Default)]
struct Record<'a> {
    kind: u64,
    sum: u32,
    data: &'a [u8],
}

impl<'a> Record<'a> {
    /// A protobuf message with three fields: type, checksum, data.
    fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let mut record = Self::default();
        while !bytes.is_empty() {
            let value;
            match varint(&mut bytes)? {
                0x08 => record.kind = varint(&mut bytes)?,
                0x10 => record.sum = u32::try_from(varint(&mut bytes)?).ok()?,
                0x1A => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    (value, bytes) = bytes.split_at_checked(length)?;
                    record.data = value;
                }
                _ => return None,
            }
        }
        Some(record)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// CRC-32C of `data`, going on from the sum of what came before.
fn crc32c(before: u32, data: &[u8]) -> u32 {
    !data.iter().fold(!before, |crc, byte| (crc >> 8) ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize])
}

/// Castagnoli's polynomial, a byte at a time.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const NAME: &str = "0000000000000000-0000000000000000.wal";

    fn put_varint(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push(u8::try_from(value & 0x7F).unwrap() | 0x80);
            value >>= 7;
        }
        out.push(u8::try_from(value).unwrap());
    }

    fn append(log: &mut Vec<u8>, kind: u64, sum: u32, data: &[u8]) {
        let mut record = vec![0x08];
        put_varint(&mut record, kind);
        record.push(0x10);
        put_varint(&mut record, sum.into());
        if !data.is_empty() {
            record.push(0x1A);
            put_varint(&mut record, data.len() as u64);
            record.extend_from_slice(data);
        }
        let padding = (8 - record.len() % 8) % 8;
        let mark = if padding == 0 { 0 } else { (0x80 | padding as u64) << 56 };
        log.extend_from_slice(&(record.len() as u64 | mark).to_le_bytes());
        log.extend_from_slice(&record);
        log.extend(std::iter::repeat_n(0, padding));
    }

    /// Head, metadata and one entry of 2 KB, with room behind; the sum at the end.
    fn log_from(before: u32) -> (Vec<u8>, u32) {
        let mut log = Vec::new();
        append(&mut log, CRC, before, &[]);
        let mut sum = before;
        for (kind, data) in [(METADATA, b"metadata".to_vec()), (2, vec![7; 2048])] {
            sum = crc32c(sum, &data);
            append(&mut log, kind, sum, &data);
        }
        log.extend_from_slice(&[0; 1024]);
        (log, sum)
    }

    pub(in super::super) fn log() -> Vec<u8> {
        log_from(0).0
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xE306_9283);
    }

    #[test]
    fn a_log_that_was_torn_at_its_end_is_fine_in_the_last_file_only() {
        let (whole, sum) = log_from(0);
        assert_eq!(follow(&whole, 0, false).unwrap(), sum);
        let cut = &whole[..whole.len() - 2000];
        assert!(follow(cut, 0, true).is_ok() && follow(cut, 0, false).is_err());
        let mut unwritten = whole.clone();
        unwritten[1024..1536].fill(0);
        assert!(follow(&unwritten, 0, true).is_ok() && follow(&unwritten, 0, false).is_err());
    }

    #[test]
    fn what_etcd_cannot_have_written_is_seen() {
        let mut flipped = log();
        flipped[300] ^= 1;
        let no_head = log()[16..].to_vec();
        for bytes in [flipped, vec![0; 4096], vec![0xFF; 4096], Vec::new(), no_head] {
            assert!(follow(&bytes, 0, true).is_err(), "{} bytes", bytes.len());
        }
    }

    #[test]
    fn files_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        assert!(check(folder.path()).is_err(), "no file at all");
        let (first, sum) = log_from(0);
        put(NAME, &first);
        put("0000000000000001-0000000000000005.wal", &log_from(sum).0);
        put("0.tmp", b"not looked at");
        check(folder.path()).unwrap();
        put("0000000000000001-0000000000000005.wal", &log_from(sum ^ 1).0);
        assert!(check(folder.path()).is_err(), "another log's second file");
        std::fs::remove_file(folder.path().join("0000000000000001-0000000000000005.wal")).unwrap();
        put("0000000000000002-0000000000000009.wal", &log_from(sum).0);
        assert!(check(folder.path()).is_err(), "the second is missing");
    }
}
