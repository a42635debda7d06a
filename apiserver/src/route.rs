//! Reads a path and method as a request for a resource, as upstream's request info does.

use http::Method;

use crate::query::Query;

/// What a request is about. Strings are empty where they do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    pub is_resource: bool,
    pub path: String,
    pub verb: &'static str,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// What follows the subresource, for proxies; begins with a slash if there is anything.
    pub rest: String,
}

/// Subresources under a namespace itself; any other third segment is a resource within it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    pub fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self { path: path.to_owned(), verb: path_verb(method), ..Self::default() };
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let rest = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                (*version).clone_into(&mut info.version);
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                (*group).clone_into(&mut info.group);
                (*version).clone_into(&mut info.version);
                rest
            }
            _ => return info,
        };
        info.is_resource = true;
        info.verb = resource_verb(method);
        let (rest, watched) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (rest, true),
            rest => (rest, false),
        };
        info.place(rest);
        info.refine_verb(query, watched);
        info
    }

    /// Splits `[namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE[/…]]]`.
    fn place(&mut self, segments: &[&str]) {
        let segments = match segments {
            ["namespaces", namespace, after, ..] if !NAMESPACE_SUBRESOURCES.contains(after) => {
                self.namespace = decoded(namespace);
                &segments[2..]
            }
            // A namespace is its own namespace for authorization, as upstream has it.
            ["namespaces", namespace, ..] => {
                self.namespace = decoded(namespace);
                segments
            }
            _ => segments,
        };
        let mut parts = segments.iter();
        self.resource = parts.next().map(|part| (*part).to_owned()).unwrap_or_default();
        self.name = parts.next().map(|part| decoded(part)).unwrap_or_default();
        self.subresource = parts.next().map(|part| (*part).to_owned()).unwrap_or_default();
        for part in parts {
            self.rest.push('/');
            self.rest.push_str(part);
        }
        if !self.rest.is_empty() && self.path.ends_with('/') {
            self.rest.push('/');
        }
    }

    fn refine_verb(&mut self, query: &Query, watched: bool) {
        if self.name.is_empty() {
            self.verb = match self.verb {
                "get" if watched || query.flag("watch") => "watch",
                "get" => "list",
                "delete" => "deletecollection",
                verb => verb,
            };
        } else if self.verb == "get" && watched {
            self.verb = "watch";
        }
    }

    /// `v1` or `apps/v1`.
    pub fn group_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

fn decoded(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

fn resource_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

fn path_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "post",
        "GET" => "get",
        "HEAD" => "head",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let info = RequestInfo::parse(&method, path, &Query::parse(query));
        let text = format!(
            "{} {} ns={} r={} n={} s={} rest={} {}",
            info.verb,
            info.group_version(),
            info.namespace,
            info.resource,
            info.name,
            info.subresource,
            info.rest,
            info.is_resource
        );
        assert_eq!(text, expected, "{method} {uri}");
    }

    #[test]
    fn resources() {
        check("GET", "/api/v1/pods", "list v1 ns= r=pods n= s= rest= true");
        check("GET", "/api/v1/namespaces/a/pods/p", "get v1 ns=a r=pods n=p s= rest= true");
        check(
            "GET",
            "/apis/apps/v1/namespaces/a/deployments?watch=1",
            "watch apps/v1 ns=a r=deployments n= s= rest= true",
        );
        check("GET", "/api/v1/watch/namespaces/a/pods/p", "watch v1 ns=a r=pods n=p s= rest= true");
        check("GET", "/api/v1/namespaces", "list v1 ns= r=namespaces n= s= rest= true");
        check("PUT", "/api/v1/namespaces/a/finalize", "update v1 ns=a r=namespaces n=a s=finalize rest= true");
        check("GET", "/api/v1/namespaces/a", "get v1 ns=a r=namespaces n=a s= rest= true");
        check("DELETE", "/api/v1/namespaces/a/configmaps", "deletecollection v1 ns=a r=configmaps n= s= rest= true");
        check("POST", "/api/v1/namespaces/a/pods/p/binding", "create v1 ns=a r=pods n=p s=binding rest= true");
        check("GET", "/api/v1/nodes/n/proxy/logs/x/", "get v1 ns= r=nodes n=n s=proxy rest=/logs/x/ true");
        check("GET", "/api/v1/namespaces/a/services/s:80/proxy", "get v1 ns=a r=services n=s:80 s=proxy rest= true");
    }

    #[test]
    fn other_paths() {
        for path in ["/", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/healthz", "/openapi/v3"] {
            check("GET", path, "get  ns= r= n= s= rest= false");
        }
    }
}
