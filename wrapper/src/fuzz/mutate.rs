// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! New inputs out of old ones: the usual byte-level steps of a fuzzer, a few at a time. The same seed gives the same
//! inputs; knows nothing of what they mean.

/// A small generator (splitmix64): one number is its whole state, so one number replays a run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed makes the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`; 0 when `end` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a usize")]
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.number() % end as u64) as usize }
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> Option<&'a T> {
        of.get(self.below(of.len())).copied()
    }

    fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    /// Mostly short, now and then as long as `longest`.
    fn length(&mut self, longest: usize) -> usize {
        let most = match self.below(8) {
            0 => longest,
            1 | 2 => longest.min(256),
            _ => longest.min(16),
        };
        1 + self.below(most)
    }
}

/// Bytes and texts at which parsers break more often than at others.
const ODD_BYTES: &[u8] = b"\x00\x01\x7f\x80\xff\n\r\t \"'%&+,-./0:;<=>@[]\\{}~#*!|?";
const ODD_TEXTS: &[&str] = &[
    "0",
    "-1",
    "+1",
    "00",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "-9223372036854775809",
    "1e999",
    "NaN",
    "\r\n",
    "\r\n\r\n",
    "\u{feff}",
    "\u{b5}",
    "\u{660}",
    "\u{202e}",
    "\u{1f600}",
    "\u{0}",
    "%00",
    "%ff",
    "../",
];

/// The next input out of the `pool` (never empty), at most `longest` bytes. `words` are the vocabulary of the target.
pub fn mutated(random: &mut Random, pool: &[Vec<u8>], words: &[&str], longest: usize) -> Vec<u8> {
    let mut bytes = pool[random.below(pool.len())].clone();
    // Not too many: what is left of the old input is what leads deep into a parser.
    for _ in 0..=random.below(4) * random.below(3) {
        step(random, &mut bytes, pool, words, longest);
    }
    bytes.truncate(longest);
    bytes
}

fn step(random: &mut Random, bytes: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&str], longest: usize) {
    let at = random.below(bytes.len() + 1);
    match random.below(14) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            let new =
                if random.below(2) == 0 { random.byte() } else { ODD_BYTES[random.below(ODD_BYTES.len())] };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = new;
            }
        }
        2 => {
            let new: Vec<u8> = (0..random.length(64)).map(|_| random.byte()).collect();
            insert(bytes, at, &new);
        }
        3 | 4 => insert(bytes, at, random.pick(words).unwrap_or("").as_bytes()),
        5 => insert(bytes, at, random.pick(ODD_TEXTS).unwrap_or("").as_bytes()),
        6 | 7 => {
            let end = (at + random.length(bytes.len())).min(bytes.len());
            bytes.drain(at..end);
        }
        8 => {
            let end = (at + random.length(bytes.len())).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            insert(bytes, to, &piece);
        }
        // One piece many times over: depth and length.
        9 => {
            let end = (at + 1 + random.below(8)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            if !piece.is_empty() {
                let times = random.length(longest.saturating_sub(bytes.len()) / piece.len() + 1);
                insert(bytes, at, &piece.repeat(times));
            }
        }
        10 => bytes.truncate(at),
        11 => {
            let other = &pool[random.below(pool.len())];
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        12 => number(random, bytes, at),
        _ => swap_lines(random, bytes),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    bytes.splice(at..at, new.iter().copied());
}

/// Another number in place of the next one.
fn number(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else {
        return;
    };
    let end =
        bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
    let new = match random.below(3) {
        0 => random.number().to_string(),
        1 => random.below(300).to_string(),
        _ => random.pick(&ODD_TEXTS[..10]).unwrap_or("0").to_owned(),
    };
    bytes.splice(start..end, new.bytes());
}

fn swap_lines(random: &mut Random, bytes: &mut Vec<u8>) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let (a, b) = (random.below(lines.len()), random.below(lines.len()));
    if !lines.is_empty() {
        lines.swap(a, b);
    }
    *bytes = lines.concat();
}
