package httprule

import (
	"fmt"
	"slices"
	"strings"
)

// Problem returns the problem of the rule on a route: a placeholder that the route cannot fill, or a
// key that is the same for all requests because it names a parameter in the syntax of routes. "": there
// is no problem.
func (r *Rule) Problem(route string) string {
	params := parameters(route)
	if name := r.asInRoutes(params); name != "" {
		return fmt.Sprintf("\":%s\" is literal text, so all requests have the same key: write {path.%s}", name, name)
	}
	var missing []string
	for _, name := range r.params {
		if p := "{path." + name + "}"; !slices.Contains(params, name) && !slices.Contains(missing, p) {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	has := "none"
	if len(params) > 0 {
		has = strings.Join(params, ", ")
	}
	return strings.Join(missing, ", ") + ": the route has no such parameter, it has " + has
}

// asInRoutes returns the parameter that a template without placeholders names with a colon, as
// in "user::id".
func (r *Rule) asInRoutes(params []string) string {
	if strings.Contains(r.template, "{") {
		return ""
	}
	for _, name := range params {
		for _, before := range []string{":", "/"} {
			if strings.Contains(before+r.template, before+":"+name) {
				return name
			}
		}
	}
	return ""
}

// parameters returns the names of a pattern's parameters: {id}, {path...} and chi's {id:[0-9]+}, or, in
// the patterns of other routers, :id, *path and *.
func parameters(pattern string) (names []string) {
	for _, rest, found := strings.Cut(pattern, "{"); found; _, rest, found = strings.Cut(rest, "{") {
		name, _, _ := strings.Cut(rest, "}")
		name, _, _ = strings.Cut(name, ":")
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			names = append(names, name)
		}
	}
	if names != nil {
		return names
	}
	for part := range strings.SplitSeq(pattern, "/") {
		at := strings.IndexAny(part, ":*")
		switch {
		case strings.HasSuffix(part, "*"):
			names = append(names, "*")
		case at == 0 || at > 0 && part[at-1] != '\\':
			names = append(names, part[at+1:])
		}
	}
	return names
}
