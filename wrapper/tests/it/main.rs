// SPDX-FileCopyrightText: The etcd-wrapper authors
// SPDX-License-Identifier: Apache-2.0
mod first;
mod http;
mod member_etcd;
mod scene;
