// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask kind`: a test cluster by hand. It owns clusters of the names it is given, and no others.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::cluster::{self, Cluster, State};
use crate::engine::Engine;
use crate::interrupt::Interrupt;
use crate::sh::Step;
use crate::tools::Tool;

/// Makes and removes test clusters
///
/// A cluster is one KinD node. Its image is the public one where the engine has it or can pull it, else one that is
/// built from pinned modules and Debian's packages: some 12 minutes on two cores the first time, from then on the
/// engine has it. Several clusters live side by side by their names; the kubeconfig is one of its own, never yours.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask kind up                       a cluster called etcd-wrapper\n  \
    cargo xtask kind shell -- kubectl get nodes\n  \
    cargo xtask kind load IMAGE archive.tar   images into its node\n  \
    cargo xtask kind down")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// The cluster's name
    #[arg(long, global = true, value_name = "NAME", default_value = cluster::DEFAULT)]
    name: String,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Makes the cluster, unless it is there
    #[command(
        after_help = "Examples:\n  cargo xtask kind up\n  cargo xtask kind up --name second --kubernetes 1.36"
    )]
    Up {
        /// Of this minor of Kubernetes, such as 1.36 [default: the newest that pipelines/images.yaml has]
        #[arg(long, value_name = "MINOR")]
        kubernetes: Option<String>,
    },
    /// Removes the cluster with all it holds
    #[command(after_help = "Example: cargo xtask kind down")]
    Down,
    /// Puts images of the engine, or archives, into the node
    #[command(after_help = "Example: cargo xtask kind load localhost/etcd-wrapper:dev archive.tar")]
    Load {
        /// A reference, or the path of an archive (it ends in .tar)
        #[arg(required = true, value_name = "IMAGE|ARCHIVE")]
        images: Vec<String>,
    },
    /// Tells which clusters there are, and how they stand
    #[command(after_help = "Example: cargo xtask kind status")]
    Status,
    /// Runs a shell, or a command, with kubectl and KUBECONFIG of the cluster
    #[command(
        after_help = "Examples:\n  cargo xtask kind shell\n  cargo xtask kind shell -- kubectl get pods --all-namespaces\n\n\
        The exit code is the command's."
    )]
    Shell {
        /// What to run; $SHELL if nothing is given
        #[arg(last = true)]
        command: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let engine = Engine::running()?;
    match &args.what {
        What::Up { kubernetes } => up(&engine, &Cluster::named(&args.name)?, kubernetes.as_deref()),
        What::Down => down(&Cluster::named(&args.name)?),
        What::Load { images } => load(&engine, &Cluster::named(&args.name)?, images),
        What::Status => status(&engine),
        What::Shell { command } => shell(&engine, &Cluster::named(&args.name)?, command),
    }
}

fn up(engine: &Engine, cluster: &Cluster, kubernetes: Option<&str>) -> Result<ExitCode> {
    let interrupt = Interrupt::watch()?;
    let Some(_claim) = cluster.claim()? else {
        bail!("cluster {} is in use by another run; choose another --name", cluster.name);
    };
    let began = Instant::now();
    match cluster.state(engine)? {
        State::Up(version) if !cluster::is_minor(&version, kubernetes) => bail!(
            "cluster {name} is up with Kubernetes {version}; choose another --name, or remove it: cargo xtask kind down --name {name}",
            name = cluster.name
        ),
        State::Up(version) => eprintln!("cluster {} is up, Kubernetes {version}", cluster.name),
        State::Absent => {
            cluster.create(engine, kubernetes)?;
            interrupt.check()?;
            eprintln!("cluster {} is up after {:.0} s", cluster.name, began.elapsed().as_secs_f64());
        }
        State::Stopped(state) => {
            bail!(
                "the node of cluster {name} is {state}; start it (docker start {node}), or remove it: cargo xtask kind down --name {name}",
                name = cluster.name,
                node = cluster.node()
            )
        }
        State::Deaf(why) => bail!(
            "the node of cluster {name} runs, and its API server does not answer ({why}); its logs: cargo xtask kind shell; remove it: cargo xtask kind down --name {name}",
            name = cluster.name
        ),
    }
    println!("export KUBECONFIG={}", cluster.kubeconfig.display());
    Ok(ExitCode::SUCCESS)
}

fn down(cluster: &Cluster) -> Result<ExitCode> {
    let Some(_claim) = cluster.claim()? else {
        bail!("cluster {} is in use by another run", cluster.name);
    };
    cluster.delete()?;
    eprintln!("cluster {} is gone", cluster.name);
    Ok(ExitCode::SUCCESS)
}

fn load(engine: &Engine, cluster: &Cluster, images: &[String]) -> Result<ExitCode> {
    for image in images {
        let path = Path::new(image);
        if path.extension().is_some_and(|ext| ext == "tar") {
            cluster.load_archive(engine, path)?;
        } else if engine.image(image)?.is_none() {
            bail!("the engine has no image {image}; pull or load it first");
        } else {
            cluster.load_image(image)?;
        }
        eprintln!("{image} is in cluster {}", cluster.name);
    }
    Ok(ExitCode::SUCCESS)
}

fn status(engine: &Engine) -> Result<ExitCode> {
    let names = cluster::all(engine)?;
    if names.is_empty() {
        println!("no clusters; make one: cargo xtask kind up");
    }
    for name in names {
        let cluster = Cluster::named(&name)?;
        let state = match cluster.state(engine)? {
            State::Absent => "absent".into(),
            State::Stopped(state) => format!("its node is {state}"),
            State::Deaf(why) => {
                format!("its API server does not answer: {}", why.lines().next().unwrap_or_default())
            }
            State::Up(version) => format!("up, Kubernetes {version}"),
        };
        let used = if cluster.claim()?.is_none() { ", in use by a run" } else { "" };
        println!("{name:24} {state}{used}");
    }
    Ok(ExitCode::SUCCESS)
}

fn shell(engine: &Engine, cluster: &Cluster, command: &[String]) -> Result<ExitCode> {
    if cluster.state(engine)? == State::Absent {
        bail!("no cluster {name}; make it: cargo xtask kind up --name {name}", name = cluster.name);
    }
    let kubectl = Tool::Kubernetes("kubectl").ensure()?;
    let mut path = std::ffi::OsString::from(kubectl.parent().unwrap_or(Path::new("/")));
    if let Some(old) = std::env::var_os("PATH") {
        path.push(":");
        path.push(old);
    }
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let step = match command {
        [] => Step::new(shell),
        [program, args @ ..] => Step::new(program).args(args),
    };
    let status = step.env("KUBECONFIG", &cluster.kubeconfig).env("PATH", path).status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
