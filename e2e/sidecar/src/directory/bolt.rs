// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! etcd's database file, as bbolt lays it out: two heads, one of which must be whole, and a tree of pages. Sees
//! pages that are missing or are not what their place says; does not read keys, and does not lock.
use std::path::Path;

use anyhow::{Context, bail, ensure};
use doubles::sidecar::Mode;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Of a page: id, flags, count, overflow.
const PAGE_HEAD: usize = 16;
/// Of a head (bbolt's meta): all before its checksum.
const META_SUMMED: usize = 56;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const ELEMENT: usize = 16;
/// Of a leaf's element: its value is a bucket.
const BUCKET: u32 = 0x01;

/// What a whole head says.
#[derive(Clone, Copy, Debug)]
struct Meta {
    page_size: usize,
    root: u64,
    /// Pages in use: no page has this number or a higher one.
    end: u64,
    transaction: u64,
}

/// Checks the heads and the file's length; with `Full` the whole tree.
///
/// # Errors
/// Where something is not as bbolt would have left it, even when it was killed.
pub(super) fn check(path: &Path, mode: Mode) -> anyhow::Result<()> {
    let bytes = super::read(path)?;
    check_bytes(&bytes, mode).with_context(|| format!("check {}", path.display()))
}

fn check_bytes(bytes: &[u8], mode: Mode) -> anyhow::Result<()> {
    let meta = meta(bytes)?;
    let wanted = meta.end.saturating_mul(meta.page_size as u64);
    ensure!(bytes.len() as u64 >= wanted, "it has {} bytes where {wanted} are in use", bytes.len());
    match mode {
        Mode::Full => walk(bytes, meta, meta.root),
        Mode::Sanity => Ok(()),
    }
}

/// The newer of the two heads that is whole.
fn meta(bytes: &[u8]) -> anyhow::Result<Meta> {
    // The first head knows the page size; when it is broken the usual one must do.
    let first = read_meta(bytes, 0);
    let page_size = first.as_ref().map_or(4096, |meta| meta.page_size);
    let second = read_meta(bytes, page_size);
    let whole = [first, second].into_iter().flatten();
    whole.max_by_key(|meta| meta.transaction).context("none of its two heads is whole")
}

fn read_meta(bytes: &[u8], at: usize) -> Option<Meta> {
    let meta = bytes.get(at + PAGE_HEAD..at + PAGE_HEAD + META_SUMMED + 8)?;
    let whole = u32_at(meta, 0)? == MAGIC
        && u32_at(meta, 4)? == VERSION
        && u64_at(meta, META_SUMMED)? == fnv1a(&meta[..META_SUMMED]);
    let page_size = usize::try_from(u32_at(meta, 8)?).ok()?;
    (whole && page_size >= 512).then_some(Meta {
        page_size,
        root: u64_at(meta, 16)?,
        end: u64_at(meta, 40)?,
        transaction: u64_at(meta, 48)?,
    })
}

/// Every page that can be reached from `root`, deepest last.
fn walk(bytes: &[u8], meta: Meta, root: u64) -> anyhow::Result<()> {
    let mut ahead = vec![root];
    let mut visited = 0_u64;
    while let Some(id) = ahead.pop() {
        visited += 1;
        ensure!(visited <= meta.end, "its tree has a circle");
        ensure!((2..meta.end).contains(&id), "page {id} is none of the {} in use", meta.end);
        let at = usize::try_from(id)? * meta.page_size;
        let head = &bytes[at..];
        ensure!(u64_at(head, 0) == Some(id), "page {id} does not say that it is");
        let flags = u16_at(head, 8).unwrap_or_default();
        let count = usize::from(u16_at(head, 10).unwrap_or_default());
        let pages = u64::from(u32_at(head, 12).unwrap_or_default()) + 1;
        ensure!(id + pages <= meta.end, "page {id} goes on beyond the end");
        let page = &head[..usize::try_from(pages)? * meta.page_size];
        for n in 0..count {
            let element = PAGE_HEAD + n * ELEMENT;
            ensure!(element + ELEMENT <= page.len(), "page {id} has more elements than fit");
            match flags {
                BRANCH => ahead.extend(u64_at(page, element + 8)),
                LEAF => ahead.extend(bucket(page, element).with_context(|| format!("on page {id}"))?),
                _ => {}
            }
        }
        if flags != BRANCH && flags != LEAF {
            bail!("page {id} is neither branch nor leaf, but {flags:#x}");
        }
    }
    Ok(())
}

/// The root page of the bucket that a leaf's element holds; None for a plain value and an inlined bucket.
fn bucket(page: &[u8], element: usize) -> anyhow::Result<Option<u64>> {
    let field = |n: usize| u32_at(page, element + n * 4).map(|value| value as usize);
    let (Some(flags), Some(offset), Some(key), Some(value)) =
        (u32_at(page, element), field(1), field(2), field(3))
    else {
        bail!("an element is cut");
    };
    let begin = element + offset + key;
    let value = page.get(begin..begin + value).context("an element lies beyond the page")?;
    if flags & BUCKET == 0 {
        return Ok(None);
    }
    let root = u64_at(value, 0).context("a bucket is cut")?;
    Ok((root != 0).then_some(root))
}

/// bbolt's checksum of a head.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    fn put_page(bytes: &mut [u8], id: u64, flags: u16, count: u16) {
        let at = usize::try_from(id).unwrap() * PAGE;
        put(bytes, at, &id.to_le_bytes());
        put(bytes, at + 8, &flags.to_le_bytes());
        put(bytes, at + 10, &count.to_le_bytes());
    }

    fn put_meta(bytes: &mut [u8], id: u64, root: u64, end: u64, transaction: u64) {
        put_page(bytes, id, 0x04, 0);
        let at = usize::try_from(id).unwrap() * PAGE + PAGE_HEAD;
        put(bytes, at, &MAGIC.to_le_bytes());
        put(bytes, at + 4, &VERSION.to_le_bytes());
        put(bytes, at + 8, &4096_u32.to_le_bytes());
        put(bytes, at + 16, &root.to_le_bytes());
        put(bytes, at + 40, &end.to_le_bytes());
        put(bytes, at + 48, &transaction.to_le_bytes());
        let sum = fnv1a(&bytes[at..at + META_SUMMED]);
        put(bytes, at + META_SUMMED, &sum.to_le_bytes());
    }

    /// A root leaf (page 3) with one bucket, whose leaf is page 4; page 2 would be the list of free ones.
    pub(in super::super) fn database() -> Vec<u8> {
        let mut bytes = vec![0; 5 * PAGE];
        put_meta(&mut bytes, 0, 3, 5, 7);
        put_meta(&mut bytes, 1, 4, 5, 6);
        put_page(&mut bytes, 3, LEAF, 1);
        let element = 3 * PAGE + PAGE_HEAD;
        for (n, field) in [BUCKET, 16, 3, 16].into_iter().enumerate() {
            put(&mut bytes, element + n * 4, &field.to_le_bytes());
        }
        put(&mut bytes, element + 16, b"key");
        put(&mut bytes, element + 19, &4_u64.to_le_bytes());
        put_page(&mut bytes, 4, LEAF, 0);
        bytes
    }

    fn full(bytes: &[u8]) -> anyhow::Result<()> {
        check_bytes(bytes, Mode::Full)
    }

    #[test]
    fn a_whole_database_passes_with_either_head() {
        full(&database()).unwrap();
        for head in [0, PAGE] {
            let mut bytes = database();
            put(&mut bytes, head + PAGE_HEAD, &[0; 64]);
            full(&bytes).unwrap();
        }
    }

    #[test]
    fn zeroes_and_halves_are_seen_at_a_glance() {
        for bytes in
            [vec![0; 5 * PAGE], database()[..3 * PAGE].to_vec(), Vec::new(), database()[..100].to_vec()]
        {
            assert!(check_bytes(&bytes, Mode::Sanity).is_err(), "{} bytes", bytes.len());
        }
    }

    #[test]
    fn a_page_that_was_lost_is_seen_by_a_full_look() {
        for (at, value) in [(3 * PAGE, 0_u64), (4 * PAGE, 0), (4 * PAGE, 3), (3 * PAGE + 8, 0x0001_0010)] {
            let mut bytes = database();
            put(&mut bytes, at, &value.to_le_bytes());
            check_bytes(&bytes, Mode::Sanity).unwrap();
            assert!(full(&bytes).is_err(), "{value:#x} at {at}");
        }
    }

    #[test]
    fn a_tree_that_leads_nowhere_ends() {
        // The bucket's root: its own page, none at all, one beyond the end.
        for root in [3_u64, 1, 99] {
            let mut bytes = database();
            put(&mut bytes, 3 * PAGE + PAGE_HEAD + 19, &root.to_le_bytes());
            assert!(full(&bytes).is_err(), "{root}");
        }
    }
}
