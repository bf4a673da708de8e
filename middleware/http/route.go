package lockhttp

import (
	"cmp"
	"net/http"
	gopath "path"
	"slices"
	"strings"
)

// pathOf returns the path of a request as chi reads it. clean is false if levels of it may have been left out
// on the way to the route. A slash at the end is none.
func pathOf(r *http.Request) (path string, clean bool) {
	sent := cmp.Or(r.URL.RawPath, r.URL.Path)
	path = gopath.Clean(sent)
	return path, sent == path || sent == path+"/"
}

// front returns the part of a path in front of a pattern. ServeMux, Echo and gin set the whole pattern. A
// sub-router of chi sets only its own part, and two of them may have the same part.
func front(pattern, path string) string {
	missing := strings.Count(path, "/") - strings.Count(pattern, "/")
	if missing <= 0 || isWhole(pattern) || isSubtree(pattern) {
		return ""
	}
	at := 0
	for ; missing > 0; missing-- {
		at += 1 + strings.Index(path[at+1:], "/")
	}
	return path[:at]
}

// routeOf returns the route of g or, if that is for everything, of the request, with the front part that a sub-router
// leaves out. "/" says nothing: it is the root of a sub-router, or for everything.
func (g *guard) routeOf(r *http.Request) string {
	route := g.path
	if route == everything {
		path, _ := pathOf(r)
		route = front(r.Pattern, path) + r.Pattern
	}
	if route == "/" {
		return ""
	}
	return route
}

// isWhole reports whether a pattern cannot be a part: it has a method or a host, is a name, or is of ServeMux.
func isWhole(pattern string) bool {
	return !strings.HasPrefix(pattern, "/") || strings.HasSuffix(pattern, "...}")
}

// isSubtree reports whether pattern may stand for any number of levels, so that the levels of a
// path are unknown.
func isSubtree(pattern string) bool {
	return strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "*")
}

// of returns the rules that cover a request, of whose route own is the path or the end of it.
func (l *rules) of(r *http.Request, own string) []*guard {
	if !isWhole(r.Pattern) {
		if guards, ok := l.mounted(r, own); ok {
			return guards
		}
	}
	if guards, known := l.paths[own]; known {
		return guards
	}
	return l.rest
}

// mounted returns the rules that cover a request if own is only the end of its route, or may be. If its path does not
// tell the front part of its route, they are those of all routes that may be meant: somebody could choose the path to
// avoid a rule.
func (l *rules) mounted(r *http.Request, own string) (guards []*guard, ok bool) {
	path, clean := pathOf(r)
	longer := func(route string) bool { return fits(route, own, path) }
	switch {
	case !clean:
		return l.covering(func(route string) bool { return mayEnd(route, own, r) }), true
	case isSubtree(own):
		return l.covering(func(route string) bool { return route == own || longer(route) }), true
	}
	first := front(r.Pattern, path)
	if guards, known := l.paths[first+own]; known || first == "" {
		return guards, known
	}
	if guards := l.covering(longer); len(guards) > len(l.rest) {
		return guards, true
	}
	return l.rest, !begins(own, r)
}

// begins reports whether own may be the whole route of a request: the path has own's levels in front of the first
// parameter. ServeMux reads it decoded, chi as it was sent.
func begins(own string, r *http.Request) bool {
	start := strings.TrimSuffix(own, "/")
	if at := strings.IndexAny(start, "{*"); at >= 0 {
		start = start[:strings.LastIndex(start[:at], "/")]
	}
	return strings.HasPrefix(r.URL.Path+"/", start+"/") || strings.HasPrefix(r.URL.RawPath+"/", start+"/")
}

// covering returns the rules for everything and those whose path fits, in order.
func (l *rules) covering(fits func(path string) bool) (some []*guard) {
	for _, g := range l.guards {
		if g.path == everything || fits(g.path) {
			some = append(some, g)
		}
	}
	return some
}

// fits reports whether a route that ends with own has the levels of a path.
func fits(route, own, path string) bool {
	start, open := strings.CutSuffix(route, "*")
	parts, levels := strings.Split(strings.TrimSuffix(start, "/"), "/"), strings.Split(path, "/")
	if open && len(levels) > len(parts) {
		levels = levels[:len(parts)]
	}
	return strings.HasSuffix(route, own) && slices.EqualFunc(parts, levels, func(part, level string) bool {
		return part == level || isParameter(part)
	})
}

// mayEnd reports whether own may be the end of route for a request: the levels in front of it are those of the
// path, with others between them.
func mayEnd(route, own string, r *http.Request) bool {
	first, ends := strings.CutSuffix(route, own)
	rest := "/" + cmp.Or(r.URL.RawPath, r.URL.Path) + "/"
	for part := range strings.SplitSeq(first, "/") {
		if ends && part != "" && !isParameter(part) {
			_, rest, ends = strings.Cut(rest, "/"+part+"/")
			rest = "/" + rest
		}
	}
	return ends
}

// isParameter reports whether a part of a pattern has a parameter.
func isParameter(part string) bool { return strings.ContainsAny(part, "{}*") }
