// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Server-sent events, from bytes to events, as the HTML standard has them parsed. Bounded: a stream that never ends an
//! event is an error, not a growing buffer. Opens nothing.

/// Longest event that is taken.
const LONGEST: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// `message` where the stream names none.
    pub(super) topic: String,
    /// Where to go on from: the newest id of the stream so far.
    pub(super) id: Option<String>,
    pub(super) data: String,
}

/// What was read and makes no event yet.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows ends no second line.
    after_cr: bool,
    topic: String,
    id: Option<String>,
    data: Option<String>,
    size: usize,
}

impl Parser {
    /// Takes bytes however they were cut, and gives the events that end in them.
    ///
    /// # Errors
    /// An event that is longer than any of a wrapper's.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        for &byte in bytes {
            let follows_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if follows_cr => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_of_line(&String::from_utf8_lossy(&line)));
                }
                other => {
                    self.line.push(other);
                    self.size += 1;
                    if self.size > LONGEST {
                        return Err(format!("an event is longer than {LONGEST} bytes"));
                    }
                }
            }
        }
        Ok(events)
    }

    fn end_of_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            self.size = 0;
            let topic = std::mem::take(&mut self.topic);
            let data = self.data.take()?;
            let topic = if topic.is_empty() { "message".to_owned() } else { topic };
            return Some(Event { topic, id: self.id.clone(), data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.topic),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments begin with the colon; `retry` and whatever is new say nothing to us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = ": hello\n\nid: 3f:1\nevent: snapshot\ndata: {\"a\":\ndata: 1}\n\nevent: leader\r\nid: 3f:2\r\n\
                          data: x\r\n\r\ndata\n\nevent: nothing\n\nretry: 5\ndata:y\r\rid: 3f:3\ndata: cut";

    fn event(topic: &str, id: &str, data: &str) -> Event {
        Event { topic: topic.to_owned(), id: Some(id.to_owned()), data: data.to_owned() }
    }

    fn expected() -> Vec<Event> {
        vec![
            event("snapshot", "3f:1", "{\"a\":\n1}"),
            event("leader", "3f:2", "x"),
            event("message", "3f:2", ""),
            event("message", "3f:2", "y"),
        ]
    }

    #[test]
    fn events_are_parsed_and_a_cut_one_is_none() {
        assert_eq!(Parser::default().take(STREAM.as_bytes()).unwrap(), expected());
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'a'; 1024 * 1024];
        let mut last = Ok(Vec::new());
        for _ in 0..5 {
            last = parser.take(&piece);
        }
        assert!(last.is_err());
        let mut parser = Parser::default();
        let piece = [b"data: ".as_slice(), &piece, b"\n"].concat();
        assert!((0..5).any(|_| parser.take(&piece).is_err()), "many lines of one event grow as well");
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_events_are_the_same(cuts in proptest::collection::vec(1..20_usize, 1..60)) {
            let (mut parser, mut rest, mut events) = (Parser::default(), STREAM.as_bytes(), Vec::new());
            for cut in cuts.into_iter().chain([STREAM.len()]) {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                events.extend(parser.take(piece).unwrap());
                rest = tail;
            }
            prop_assert_eq!(events, expected());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Parser::default().take(&bytes);
        }
    }
}
