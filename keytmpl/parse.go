package keytmpl

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	eachMark   = "[*]"
	hashFilter = "hash"
)

// Parse compiles a template. Its errors are of type *SyntaxError. The template may use the
// filters of this package, and those that were added with [Register] before.
//
// In addition to the syntax, Parse refuses a template whose shortest possible key is longer
// than MaxKeyBytes, because no value could make it valid.
func Parse(src string) (*Template, error) {
	p := parser{src: src, filters: registered()}
	if src == "" {
		return nil, p.fail(0, "nothing", "text or a {placeholder}")
	}
	if len(src) > MaxKeyBytes {
		return nil, p.fail(MaxKeyBytes, fmt.Sprintf("a template of %d bytes", len(src)), atMostKeyBytes)
	}
	return p.template()
}

// MustParse is Parse for templates that are part of the program, such as package variables. It
// panics if Parse returns an error.
func MustParse(src string) *Template {
	t, err := Parse(src)
	if err != nil {
		panic(err)
	}
	return t
}

var atMostKeyBytes = fmt.Sprintf("at most %d, the length of a key", MaxKeyBytes)

// parser goes over src once. pos is the next byte to look at.
type parser struct {
	src     string
	filters []*Filter
	pos     int
	each    bool // a [*] has been seen
}

func (p *parser) template() (*Template, error) {
	t := &Template{source: p.src}
	var err error
	if t.head, err = p.text(); err != nil {
		return nil, err
	}
	shortest := len(t.head)
	for p.pos < len(p.src) {
		h, err := p.hole()
		if err != nil {
			return nil, err
		}
		shortest += h.minBytes() + len(h.tail)
		if shortest > MaxKeyBytes {
			return nil, p.fail(h.Pos, fmt.Sprintf("a key of %d bytes or more", shortest), atMostKeyBytes)
		}
		t.holes = append(t.holes, h)
	}
	t.multiple = p.each
	return t, nil
}

// hole reads a placeholder and the text behind it. Only the last placeholder may have no text
// behind it.
func (p *parser) hole() (hole, error) {
	ph, used, err := p.placeholder()
	if err != nil {
		return hole{}, err
	}
	tail, err := p.text()
	if err != nil {
		return hole{}, err
	}
	last := p.pos == len(p.src)
	if tail == "" && !last {
		return hole{}, p.fail(p.pos, "a placeholder right behind "+ph.String(),
			`text between them, such as ":" (without it "1","23" and "12","3" would be the same key)`)
	}
	return hole{Placeholder: ph, each: ph.Multiple(), tail: tail, filters: used, escapes: escapesBefore(tail, last)}, nil
}

// text reads literal text up to the next opening brace or the end.
func (p *parser) text() (string, error) {
	start := p.pos
	for p.pos < len(p.src) {
		r, size := utf8.DecodeRuneInString(p.src[p.pos:])
		var want string
		switch {
		case r == '{':
			return p.src[start:p.pos], nil
		case r == '}':
			want = "text or a {placeholder}: this brace closes nothing"
		case r == '%':
			// If it were allowed, "{a}%{b}" would render both ("x", "25%") and ("x%", "25") as
			// x%25%25.
			want = "text without percent signs: in a key they begin an escaped byte"
		case unicode.IsControl(r):
			want = "text without control characters"
		case r == utf8.RuneError && size == 1:
			want = "text in valid UTF-8"
		}
		if want != "" {
			return "", p.unexpected(want)
		}
		p.pos += size
	}
	return p.src[start:], nil
}

// placeholder reads a placeholder, and returns its filters, too.
func (p *parser) placeholder() (Placeholder, []*Filter, error) {
	ph := Placeholder{Pos: p.pos}
	p.skip("{")
	for {
		s, err := p.segment()
		if err != nil {
			return ph, nil, err
		}
		ph.Path = append(ph.Path, s)
		if !p.skip(".") {
			break
		}
	}
	want := "a letter, a digit, '_', '-', '.', '[*]', '|' or '}'"
	if ph.Path[len(ph.Path)-1].Each {
		want = "'.', '|' or '}'"
	}
	var used []*Filter
	for !ph.Hash && p.skip("|") {
		f, err := p.filter()
		if err != nil {
			return ph, nil, err
		}
		if f == nil {
			ph.Hash, want = true, "'}'" // nothing may follow a digest
			continue
		}
		used, ph.Filters = append(used, f), append(ph.Filters, f.Name)
		want = "'|' or '}'"
	}
	if !p.skip("}") {
		return ph, nil, p.unexpected(want)
	}
	return ph, used, nil
}

// filter reads a filter's name; nil stands for hash.
func (p *parser) filter() (*Filter, error) {
	start := p.pos
	name := p.name()
	if name == hashFilter {
		return nil, nil
	}
	names := []string{hashFilter}
	for _, f := range p.filters {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	want := "one of the filters " + strings.Join(names, ", ") + " (others need an import, as keytmpl/nfc for nfc)"
	if name == "" {
		return nil, p.unexpected(want)
	}
	return nil, p.fail(start, strconv.Quote(name), want)
}

// name reads letters, digits, '_' and '-'.
func (p *parser) name() string {
	start := p.pos
	for p.pos < len(p.src) && isNameByte(p.src[p.pos]) {
		p.pos++
	}
	return p.src[start:p.pos]
}

func (p *parser) segment() (Segment, error) {
	s := Segment{Name: p.name()}
	if s.Name == "" {
		return s, p.unexpected("a name of letters, digits, '_' and '-'")
	}
	mark := p.pos
	if p.skip(eachMark) {
		if p.each {
			return s, p.fail(mark, "a second [*]",
				"one per template: two would make a key of every pair of elements")
		}
		s.Each, p.each = true, true
	}
	return s, nil
}

// skip moves over token if it comes next.
func (p *parser) skip(token string) bool {
	if !strings.HasPrefix(p.src[p.pos:], token) {
		return false
	}
	p.pos += len(token)
	return true
}

// unexpected returns the error for the character that comes next.
func (p *parser) unexpected(want string) error {
	r, size := utf8.DecodeRuneInString(p.src[p.pos:])
	switch {
	case size == 0:
		return p.fail(p.pos, "the end", want)
	case r == utf8.RuneError && size == 1:
		return p.fail(p.pos, fmt.Sprintf("the byte 0x%02X", p.src[p.pos]), want)
	default:
		return p.fail(p.pos, strconv.QuoteRune(r), want)
	}
}

func (p *parser) fail(pos int, found, want string) error {
	return &SyntaxError{Template: p.src, Pos: pos, Found: found, Want: want}
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
