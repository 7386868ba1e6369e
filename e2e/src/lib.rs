// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
//! The verbs of the end-to-end suite. It knows the product only as its users do: by image, HTTP and Kubernetes API.
pub mod etcd;
pub mod history;
pub mod traffic;
