// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! Histories made by hand: what passes, what does not, what nothing can be said about, and in which words.
use super::super::explain::explain;
use super::super::register::Register;
use super::super::search::{Budget, search};
use super::super::{Answer, Call, End, History, Op, Outcome, Verdict, Violation, judge, judge_within};
use super::is_orderable;
use super::ops::{
    at, failed_put, history, last, ok_delete, ok_put, ok_read, ok_swap, op, refused_swap, unknown_delete,
    unknown_put, unknown_remove,
};

/// The sentence and the table, whatever revisions say.
fn told(ops: &[Op]) -> (String, String) {
    let ops: Vec<&Op> = ops.iter().collect();
    let register = Register::new(&ops);
    let stuck = search(&register, &mut Budget(10_000)).unwrap().expect("there is no order");
    let Violation { what, table, .. } = explain("k", &ops, &register, &stuck);
    (what, table)
}

fn read_last(when: (u64, u64), value: Option<&str>, revision: i64) -> Op {
    let mut read = last(ok_read(when, value));
    if let Outcome::Ok(answer) = &mut read.outcome {
        answer.store = revision;
        answer.seen.iter_mut().for_each(|seen| seen.revision = revision);
    }
    read
}

#[test]
fn an_unanswered_write_may_take_effect_at_any_later_time_or_never() {
    let a = ok_put(at(0, 1), "a", 2);
    let lost = unknown_put(at(2, 3), "b");
    for seen in [&["a"; 3], &["b"; 3], &["a", "a", "b"], &["a", "b", "b"]] {
        let reads = (10..).step_by(10).zip(*seen).map(|(time, seen)| ok_read(at(time, time + 5), Some(seen)));
        let ops: Vec<Op> = [a.clone(), lost.clone()].into_iter().chain(reads).collect();
        assert!(is_orderable(&history(&ops)), "{seen:?}");
    }
    let back = [a, lost, ok_read(at(10, 11), Some("b")), ok_read(at(20, 21), Some("a"))];
    assert!(!is_orderable(&history(&back)));
}

#[test]
fn a_call_without_an_answer_happens_once_at_most() {
    let ops = [
        ok_put(at(0, 1), "a", 2),
        unknown_delete(at(2, 3)),
        ok_read(at(4, 5), None),
        ok_put(at(6, 7), "b", 4),
        ok_read(at(8, 9), None),
    ];
    assert!(!is_orderable(&history(&ops)));
    let twice: Vec<Op> = ops.iter().cloned().chain([unknown_delete(at(2, 30))]).collect();
    assert!(is_orderable(&history(&twice)));
    // A removal takes its own value only.
    let bound: Vec<Op> = ops.iter().cloned().chain([unknown_remove(at(2, 30), "a")]).collect();
    assert!(is_orderable(&history(&bound)), "the deletion may have taken b, the removal a");
    let bound = [&ops[..1], &[unknown_remove(at(2, 3), "a")], &ops[2..]].concat();
    assert!(!is_orderable(&history(&bound)));
}

#[test]
fn a_stale_read_is_told_with_the_three_calls_it_takes() {
    let noise = |time| ok_read(at(time, time + 1), Some("b"));
    let ops = [
        ok_put(at(10, 20), "a", 2),
        ok_put(at(1_500_000, 1_600_000), "b", 3),
        noise(1_600_010),
        noise(1_600_020),
        ok_read(at(1_600_030, 1_600_040), Some("a")),
        noise(1_600_050),
    ];
    let (what, table) = told(&ops);
    assert_eq!(
        what,
        "the read by client 1600030 at m-0 saw a, though the put b by client 1500000 at m-0 came after that and was \
         acknowledged before: the answer is stale, or the later write is lost"
    );
    assert_eq!(
        table,
        "before these calls the key was: b\n\
         \x20 client   member  key  call   from      to        told\n\
         \x20 10       m-0     k    put a  0.000010  0.000020  done, revision 2\n\
         \x20 1500000  m-0     k    put b  1.500000  1.600000  done, revision 3\n\
         > 1600030  m-0     k    read   1.600030  1.600040  saw a (revision 0)\n"
    );
}

#[test]
fn each_kind_of_break_has_a_sentence() {
    let put = |begun, value, revision| ok_put(at(begun, begun + 1), value, revision);
    let read = |begun, value| ok_read(at(begun, begun + 1), value);
    for (ops, words) in [
        (vec![put(0, "a", 2), read(5, None)], "the write is lost"),
        (vec![put(0, "a", 2), read(5, Some("x"))], "saw x, which nobody wrote"),
        (
            vec![failed_put(at(0, 1), "x"), read(5, Some("x"))],
            "saw x, though the put x by client 0 at m-0 was refused",
        ),
        (vec![read(0, Some("a")), put(5, "a", 2)], "saw a before the put a by client 5 at m-0 began"),
        (
            vec![
                put(0, "a", 2),
                ok_swap(at(2, 9), Some("a"), Some("b"), 3),
                ok_swap(at(3, 8), Some("a"), Some("c"), 4),
            ],
            "both replaced the same value",
        ),
        (
            vec![put(0, "a", 2), refused_swap(at(3, 4), Some("a"), Some("a"))],
            "was told that the key was not as expected, and it was",
        ),
        (
            vec![put(0, "a", 2), ok_delete(at(2, 3), Some("a")), read(5, Some("a"))],
            "saw a, though the delete by client 2 at m-0 came after that",
        ),
    ] {
        let (what, table) = told(&ops);
        assert!(what.contains(words), "{what}\n{table}");
        assert!(table.contains("\n> "), "{table}");
    }
}

#[test]
fn a_break_among_many_calls_is_told_with_few() {
    // One long call keeps everything in one window.
    let long = op(at(0, 10_000), Call::Read, Outcome::Ok(Answer::default()));
    let mut ops = vec![long];
    for step in 1..100 {
        ops.push(ok_put(at(step * 20, step * 20 + 5), &format!("v{step}"), step as i64 + 1));
        ops.push(ok_read(at(step * 20 + 7, step * 20 + 9), Some(&format!("v{step}"))));
    }
    assert!(is_orderable(&history(&ops)));
    ops.push(ok_read(at(1_019, 1_020), Some("v48")));
    let (what, table) = told(&ops);
    assert!(what.contains("saw v48, though the put v49"), "{what}\n{table}");
    assert_eq!(table.lines().count(), 5, "{table}");
}

#[test]
fn nothing_acknowledged_cut_or_unread_is_never_good() {
    let reasons = |history: &History| match judge(history).verdict {
        Verdict::Undecided(reasons) => reasons.join("; "),
        other => panic!("{other:?}"),
    };
    assert!(reasons(&history(&[])).contains("no write was acknowledged"));
    let read = || read_last(at(5, 6), None, 1);
    assert!(reasons(&history(&[read()])).contains("no write was acknowledged"));
    let write = || ok_put(at(0, 1), "a", 1);
    let unread = history(&[write(), Op { last: false, ..read_last(at(2, 3), Some("a"), 1) }]);
    assert!(reasons(&unread).contains("not read at the end: k"));
    judge(&unread).require().unwrap_err();
    let lost = history(&[write(), read()]);
    assert!(matches!(judge(&lost).verdict, Verdict::Violated(_)));
    let cut = reasons(&History { end: End::Cut, ..lost });
    assert!(cut.contains("was cut") && cut.contains("key k: the last read by"), "{cut}");
}

#[test]
fn too_few_steps_are_no_verdict() {
    let ops: Vec<Op> = (0..9)
        .map(|number| ok_put(at(0, 100), &format!("v{number}"), number + 2))
        .chain([read_last(at(200, 201), Some("gone"), 50)])
        .collect();
    let judgement = judge_within(&history(&ops), 20);
    assert!(matches!(judgement.verdict, Verdict::Undecided(_)), "{judgement}");
    assert!(judgement.to_string().contains("no order found within 20 steps"), "{judgement}");
    assert!(matches!(judge(&history(&ops)).verdict, Verdict::Violated(_)));
}

#[test]
fn a_good_judgement_says_what_it_rests_on() {
    let judgement = judge(&history(&[
        ok_put(at(0, 1), "a", 2),
        ok_put(at(4, 8), "b", 3),
        failed_put(at(2, 3), "c"),
        unknown_put(at(2, 3), "d"),
        read_last(at(9, 10), Some("b"), 3),
    ]));
    assert_eq!(
        judgement.to_string(),
        "history: linearizable, all acknowledged writes are there; 1 keys, 2 writes, 1 reads, 1 refused, 1 without an answer"
    );
    assert_eq!(judgement.longest_pause, Some((1, 8)));
    judgement.require().unwrap();
}
