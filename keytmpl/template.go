package keytmpl

import "slices"

// MaxKeyBytes is the maximum length of a key, and of a template, in bytes.
const MaxKeyBytes = 512

// MaxKeys is how many elements a list behind [*] may have. It bounds memory: a request of four
// megabytes holds a million short ids, and as keys of MaxKeyBytes each they would take half a
// gigabyte.
const MaxKeys = 4096

// Template is a parsed key template. It is immutable and safe for concurrent use. The zero
// Template has no text, and renders nothing: its Key and Keys return ErrMissingValue.
type Template struct {
	source   string
	head     string // the text before the first placeholder
	holes    []hole
	multiple bool
}

// hole is a placeholder with the text that follows it.
type hole struct {
	Placeholder
	each bool
	tail string

	filters []*Filter  // applied to its value first
	escapes *escapeSet // what its value must not contain unescaped
}

// String returns the template as it was given to Parse.
func (t *Template) String() string { return t.source }

// Placeholders returns the placeholders of the template, in order. Key and Keys ask for values
// by their index in this list. A placeholder that is written twice is listed twice. The list is
// empty for a constant key.
func (t *Template) Placeholders() []Placeholder {
	list := make([]Placeholder, len(t.holes))
	for i, h := range t.holes {
		list[i] = h.Placeholder
		list[i].Path, list[i].Filters = slices.Clone(h.Path), slices.Clone(h.Placeholder.Filters)
	}
	return list
}

// Multiple reports whether the template contains [*]. Such a template makes one key per element
// of a list, and only Keys can render it.
func (t *Template) Multiple() bool { return t.multiple }
