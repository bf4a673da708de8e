package keytmpl

import (
	"slices"
	"strings"
)

// Placeholder is one {placeholder} of a template: a path to a value.
type Placeholder struct {
	Path    []Segment // never empty
	Filters []string  // names of the filters that the value goes through, in order
	Hash    bool      // |hash, behind the filters: the key gets the digest of the value
	Pos     int       // byte offset of the opening brace in the template
}

// Segment is one step of a path.
type Segment struct {
	Name string
	Each bool // [*]: the name is a list, and the path goes on in each element
}

// String returns the placeholder as it is in the template, with its braces.
func (p Placeholder) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range p.Path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.Name)
		if s.Each {
			b.WriteString(eachMark)
		}
	}
	for _, name := range p.Filters {
		b.WriteString("|" + name)
	}
	if p.Hash {
		b.WriteString("|" + hashFilter)
	}
	b.WriteByte('}')
	return b.String()
}

// Multiple reports whether the path goes through a list, that is, has a [*].
func (p Placeholder) Multiple() bool {
	return slices.ContainsFunc(p.Path, func(s Segment) bool { return s.Each })
}
