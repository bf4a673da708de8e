package keytmpl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

const digestBytes = 2 * sha256.Size // in hex

// Key renders the key of a template without [*]. It calls value once for each placeholder, in
// order, with the index in Placeholders, and stops at the first error.
//
// Its errors are of type *ValueError. They match ErrMissingValue if a value is empty,
// ErrTooLong if the key would be longer than MaxKeyBytes, ErrNotInteger or ErrNotText if a
// filter refused a value, and ErrManyValues if the template contains [*]. Otherwise they match
// the error that value or a filter returned.
func (t *Template) Key(value func(i int) (string, error)) (string, error) {
	if t.multiple {
		i := slices.IndexFunc(t.holes, func(h hole) bool { return h.each })
		return "", t.fail(i, noElement, ErrManyValues, "Keys renders one key per element")
	}
	var array [4]string // keeps the usual template's parts off the heap
	parts := array[:0]
	for i := range t.holes {
		v, err := value(i)
		if err != nil {
			return "", t.fail(i, noElement, err, "")
		}
		part, err := t.part(i, noElement, v)
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	return t.join(parts, noElement)
}

// Keys renders the keys of any template: one for each element of the list behind [*], or a
// single one if the template has no [*]. The result is sorted and has no duplicates. Without an
// error it is not empty.
//
// It calls value as Key does. For the placeholder with [*], value returns one string per
// element, for any other placeholder exactly one. The errors are those of Key, with two
// differences. ErrManyValues means that a placeholder without [*] has more than one value;
// ErrMissingValue also means that a placeholder has no value, or that a list has no elements. A
// list of more than MaxKeys elements, duplicates included, is ErrTooManyKeys.
func (t *Template) Keys(value func(i int) ([]string, error)) ([]string, error) {
	parts := make([]string, len(t.holes))
	each := -1
	var elements []string
	for i, h := range t.holes {
		values, err := value(i)
		if err == nil {
			err = checkCount(len(values), h.each)
		}
		if err != nil {
			return nil, t.fail(i, noElement, err, "")
		}
		if h.each {
			each, elements = i, values
			continue
		}
		// Once, not per element: the value may be a large body to be hashed.
		if parts[i], err = t.part(i, noElement, values[0]); err != nil {
			return nil, err
		}
	}
	if each < 0 {
		key, err := t.join(parts, noElement)
		if err != nil {
			return nil, err
		}
		return []string{key}, nil
	}
	return t.joinEach(parts, each, elements)
}

// joinEach renders one key per element. The element takes the place of parts[each].
func (t *Template) joinEach(parts []string, each int, elements []string) ([]string, error) {
	keys := make([]string, len(elements))
	for n, v := range elements {
		var err error
		if parts[each], err = t.part(each, n, v); err != nil {
			return nil, err
		}
		if keys[n], err = t.join(parts, n); err != nil {
			return nil, err
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// checkCount checks how many values a placeholder has.
func checkCount(n int, each bool) error {
	switch {
	case n == 0:
		return ErrMissingValue
	case n > 1 && !each:
		return ErrManyValues
	case n > MaxKeys:
		return ErrTooManyKeys
	}
	return nil
}

// part turns the value of placeholder i into its part of the key.
func (t *Template) part(i, element int, v string) (string, error) {
	v, err := t.filtered(i, element, v)
	switch {
	case err != nil:
		return "", err
	case v == "":
		return "", t.fail(i, element, ErrMissingValue, "")
	case t.holes[i].Hash:
		sum := sha256.Sum256([]byte(v))
		return hex.EncodeToString(sum[:]), nil
	case len(v) > MaxKeyBytes:
		// Escaping never shortens a value. Without this check a value of megabytes would be
		// escaped first and refused afterwards.
		return "", t.tooLong(i, element, len(v))
	default:
		return t.holes[i].escapes.escape(v), nil
	}
}

// filterable is the maximum length of a value that goes through filters into a key. Filters may
// shorten it: composed text can have a third of the length of decomposed text. A digest has no
// such limit.
const filterable = 4 * MaxKeyBytes

func (t *Template) filtered(i, element int, v string) (string, error) {
	h := &t.holes[i]
	if len(h.filters) > 0 && len(v) > filterable && !h.Hash {
		return "", t.tooLong(i, element, len(v))
	}
	var err error
	for _, f := range h.filters {
		if v == "" {
			break
		}
		if v, err = f.Apply(v); err != nil {
			return "", t.fail(i, element, err, "")
		}
	}
	return v, nil
}

// join puts parts and texts together.
func (t *Template) join(parts []string, element int) (string, error) {
	size, longest := len(t.head), 0
	for i, part := range parts {
		size += len(part) + len(t.holes[i].tail)
		if len(part) > len(parts[longest]) {
			longest = i
		}
	}
	if size > MaxKeyBytes {
		return "", t.tooLong(longest, element, len(parts[longest]))
	}
	if size == 0 { // the zero Template: every other has text or values
		return "", &ValueError{Element: noElement, Err: ErrMissingValue}
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(t.head)
	for i, part := range parts {
		b.WriteString(part)
		b.WriteString(t.holes[i].tail)
	}
	return b.String(), nil
}

// minBytes is the length of the shortest part that a value can become.
func (h hole) minBytes() int {
	if h.Hash {
		return digestBytes
	}
	return 1
}

// tooLong returns the error that names placeholder i, which takes the most room: size bytes. It
// proposes a digest if that is shorter.
func (t *Template) tooLong(i, element, size int) error {
	var hint string
	if p := t.holes[i].Placeholder; size > digestBytes {
		p.Hash = true
		hint = fmt.Sprintf("%v takes %d bytes whatever the value", p, digestBytes)
	}
	return t.fail(i, element, ErrTooLong, hint)
}

func (t *Template) fail(i, element int, err error, hint string) error {
	h := t.holes[i]
	if !h.each {
		element = noElement
	}
	return &ValueError{Template: t.source, Placeholder: h.Placeholder, Element: element, Err: err, Hint: hint}
}
