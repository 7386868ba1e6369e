// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! A release as somebody sees it who takes it: its files, its descriptor, its signatures, and its image, which is pulled by
//! digest and started. Uses nothing of the clone.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::Clock;
use super::stage::Stage;
use crate::arch::Arch;
use crate::engine::Engine;
use crate::image::oci::Manifest;
use crate::image::{Digest, Layout, export};
use crate::release::bundle;
use crate::release::descriptor::{Access, CVE, Descriptor};
use crate::release::registry::Registry;
use crate::release::sign::{Means, Signer, Statement};
use crate::sh::Step;

const STATEMENTS: [&str; 3] = ["cyclonedx", "spdxjson", "slsaprovenance1"];

pub(super) fn look(stage: &Stage, tag: &str, clock: &Clock) -> Result<()> {
    let folder = stage.folder.join(format!("consumer-{tag}"));
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let files = stage.github.downloads(tag);
    for (name, bytes) in &files {
        std::fs::write(folder.join(name), bytes).with_context(|| format!("write {name}"))?;
    }
    let signer = signer(stage, "key")?;
    signer.verify_file(&folder.join(bundle::SUMS), &folder.join(bundle::SIGNATURE))?;
    Step::new("sha256sum")
        .args(["--check", "--strict", "--ignore-missing", "--quiet", bundle::SUMS])
        .dir(&folder)
        .read()?;
    clock.say(&format!("consumer: the {} files of {tag} are what the signed sums say", files.len()));

    let text = std::fs::read_to_string(folder.join(bundle::DESCRIPTOR)).context("read the descriptor")?;
    let descriptor = Descriptor::parse(&text)?;
    let image = descriptor.resource("etcd-wrapper").context("the descriptor names no image")?;
    let label = image.labels.iter().find(|label| label.name == CVE).context("no categorisation")?;
    ensure!(label.value["network_exposure"] == "protected", "the categorisation is {}", label.value);
    let Access::OciArtifact { image_reference } = &image.access else {
        bail!("the image lies in no registry")
    };
    clock.say(&format!("consumer: the descriptor names {image_reference}"));

    let (name, digest) = image_reference.split_once('@').context("the image has no digest")?;
    let digest = Digest::parse(digest)?;
    let repository = name.rsplit_once(':').map_or(name, |(repository, _)| repository);
    let registry = Registry::new(repository, stage.oras.clone(), stage.env());
    let layout = registry.pull(&digest, &folder.join("image"))?;
    ensure!(layout.digest == digest, "the registry gave {} for {digest}", layout.digest);
    ensure!(registry.tagged(tag)? == Some(digest.clone()), "the tag {tag} names another image");
    let stranger = Registry::new(repository, stage.oras.clone(), stage.strangers_env());
    ensure!(stranger.has(&digest).is_err(), "the registry lets in whoever is not logged in");
    clock.say("consumer: pulled the image by digest, and the tag names the same");
    signatures(stage, &signer, &registry, &layout, clock)?;
    start(stage, &layout, tag, &folder, clock)
}

/// Somebody who has a public key.
fn signer(stage: &Stage, key: &str) -> Result<Signer> {
    let public = stage.make_key(key)?;
    let means = Means::Key { private: public.clone(), public };
    Ok(Signer::new(stage.cosign.clone(), means, stage.env()))
}

fn signatures(
    stage: &Stage,
    signer: &Signer,
    registry: &Registry,
    layout: &Layout,
    clock: &Clock,
) -> Result<()> {
    let image = registry.by_digest(&layout.digest);
    signer.verify(&image)?;
    let index = layout.index()?;
    let whole = [layout.digest.clone()];
    let parts: Vec<Digest> = index.manifests.iter().map(|one| one.digest.clone()).collect();
    for kind in STATEMENTS {
        // About the whole, or about each part.
        let good = |subjects: &[Digest]| {
            subjects.iter().all(|digest| {
                let subject = registry.by_digest(digest);
                signer.verify_statement(&Statement { subject, kind, predicate: Vec::new() }).is_ok()
            })
        };
        ensure!(good(&whole) || good(&parts), "no signed {kind} about {image}");
    }
    ensure!(signer_of_nobody(stage)?.verify(&image).is_err(), "a stranger's key verified the image");
    clock.say("consumer: signature, SBOMs and provenance are signed, and a stranger's key is refused");
    Ok(())
}

fn signer_of_nobody(stage: &Stage) -> Result<Signer> {
    signer(stage, "stranger")
}

/// Starts the image: in the engine where one runs, else its program alone.
fn start(stage: &Stage, layout: &Layout, tag: &str, folder: &Path, clock: &Clock) -> Result<()> {
    let wanted = format!("etcd-wrapper {}\n", tag.trim_start_matches('v'));
    let engine = if stage.planted { None } else { Engine::running().ok() };
    let (said, how) = match engine {
        Some(engine) => {
            let reference = format!("localhost/etcd-wrapper-rehearsal:{}", layout.digest.short());
            let archive = folder.join("image.tar");
            export::loadable(layout, Arch::HERE, &reference, &archive)?;
            engine.load(&archive)?;
            let words = ["run", "--rm", "--network", "none", &reference, "--version"];
            let said = Step::new("docker").args(words).read();
            Step::new("docker").args(["image", "rm", &reference]).read()?;
            (said?, "in the container engine")
        }
        None => {
            let program = folder.join("etcd-wrapper");
            unpack(layout, &program)?;
            (Step::new(&program).arg("--version").read()?, "as an unpacked program, without a container")
        }
    };
    ensure!(said == wanted, "the image says {said:?}, not {wanted:?}");
    clock.say(&format!("consumer: started the image {how}; it says {}", said.trim()));
    Ok(())
}

fn unpack(layout: &Layout, to: &Path) -> Result<()> {
    let index = layout.index()?;
    let one = index.manifests.iter().find(|one| one.is_of(Arch::HERE));
    let manifest: Manifest = layout.document(one.context("no image for this machine")?)?;
    for layer in &manifest.layers {
        let mut archive = tar::Archive::new(layout.layer(layer)?);
        for entry in archive.entries().context("read a layer")? {
            let mut entry = entry.context("read a layer")?;
            if entry.path().context("read a layer")?.as_ref() == Path::new("etcd-wrapper") {
                entry.unpack(to).with_context(|| format!("write {}", to.display()))?;
                return Ok(());
            }
        }
    }
    bail!("the image has no etcd-wrapper")
}
