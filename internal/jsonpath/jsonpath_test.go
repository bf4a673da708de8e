package jsonpath_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/jsonpath"
	"github.com/keyturn/keyturn/keytmpl"
)

var must, wantIs = checktest.Must, checktest.WantIs

func placeholder(t *testing.T, template string) keytmpl.Placeholder {
	t.Helper()
	tmpl, err := keytmpl.Parse(template)
	must(t, err)
	return tmpl.Placeholders()[0]
}

func parse(t *testing.T, document string) jsonpath.Document {
	t.Helper()
	doc, err := jsonpath.Parse([]byte(document))
	must(t, err)
	return doc
}

func TestOne(t *testing.T) {
	tests := []struct {
		name, document, template string
		want                     string // the value, or a part of the error
		missing, fails           bool
	}{
		{name: "a string", document: `{"id":"a b"}`, template: "{doc.id}", want: "a b"},
		{name: "nested", document: `{"user":{"id":"u1"}}`, template: "{doc.user.id}", want: "u1"},
		{name: "a number over 2^53 is not rounded", document: `{"id":9007199254740993}`, template: "{doc.id}", want: "9007199254740993"},
		{name: "a number beyond uint64", document: `{"id":123456789012345678901234567890}`, template: "{doc.id}", want: "123456789012345678901234567890"},
		{name: "a number as it is written", document: `{"n":1.50}`, template: "{doc.n}", want: "1.50"},
		{name: "a boolean", document: `{"b":false}`, template: "{doc.b}", want: "false"},
		{name: "the last of two members counts", document: `{"id":"1","id":"2"}`, template: "{doc.id}", want: "2"},
		{name: "the document itself", document: `"x"`, template: "{doc}", want: "x"},
		{name: "an empty string is keytmpl's to refuse", document: `{"id":""}`, template: "{doc.id}", want: ""},

		{name: "absent", document: `{"ID":"1"}`, template: "{doc.id}", missing: true},
		{name: "only in other case, behind null", document: `{"user":null,"User":{"id":1}}`, template: "{doc.user.id}", missing: true},
		{name: "twice, in different case", document: `{"id":1,"ID":2}`, template: "{doc.id}", want: "id twice, in different case", fails: true},
		{name: "twice, in a case that only Unicode folds", document: `{"user":{"id":1},"u\u017fer":{"id":2}}`, template: "{doc.user.id}", want: "user twice", fails: true},
		{name: "twice on the way", document: `{"USER":{"id":2},"user":{"id":1}}`, template: "{doc.user.id}", want: "user twice", fails: true},
		{name: "twice, where nobody asks", document: `{"id":1,"x":{"a":1,"A":2},"b":1,"B":2}`, template: "{doc.id}", want: "1"},
		{name: "null", document: `{"id":null}`, template: "{doc.id}", missing: true},
		{name: "behind something absent", document: `{}`, template: "{doc.user.id}", missing: true},
		{name: "behind null", document: `{"user":null}`, template: "{doc.user.id}", missing: true},
		{name: "a null document", document: `null`, template: "{doc.id}", missing: true},
		{name: "an object", document: `{"id":{"a":1}}`, template: "{doc.id}", want: "an object", fails: true},
		{name: "a list", document: `{"id":["a"]}`, template: "{doc.id}", want: "a list", fails: true},
		{name: "a member of a string", document: `{"user":"u"}`, template: "{doc.user.id}", want: "id is requested from a string", fails: true},
		{name: "a member of a number", document: `7`, template: "{doc.id}", want: "id is requested from a number", fails: true},
		{name: "a member of a boolean", document: `true`, template: "{doc.id}", want: "id is requested from a boolean", fails: true},
		{name: "a member of a list", document: `[]`, template: "{doc.id}", want: "id is requested from a list", fails: true},
	}
	for _, tt := range tests {
		got, err := parse(t, tt.document).One(placeholder(t, tt.template))
		if tt.missing && !errors.Is(err, keytmpl.ErrMissingValue) ||
			tt.fails && (err == nil || !strings.Contains(err.Error(), tt.want)) ||
			!tt.missing && !tt.fails && (err != nil || got != tt.want) {
			t.Errorf("%s: One() = %q, %v; want %q, missing: %t", tt.name, got, err, tt.want, tt.missing)
		}
	}
}

func TestEach(t *testing.T) {
	tests := []struct {
		name, document, template string
		want                     []string
		err                      string
		missing                  bool
	}{
		{name: "members of objects", document: `{"m":[{"id":1},{"id":"b"}]}`, template: "{doc.m[*].id}", want: []string{"1", "b"}},
		{name: "plain elements", document: `{"m":["a",true]}`, template: "{doc.m[*]}", want: []string{"a", "true"}},
		{name: "the document is the list", document: `[{"u":{"id":3}}]`, template: "{doc[*].u.id}", want: []string{"3"}},
		{name: "an empty list is keytmpl's to refuse", document: `{"m":[]}`, template: "{doc.m[*]}", want: []string{}},
		{name: "no list", document: `{}`, template: "{doc.m[*]}", missing: true},
		{name: "an element without the value", document: `{"m":[{"id":1},{}]}`, template: "{doc.m[*].id}", err: "element 1", missing: true},
		{name: "a null element", document: `{"m":[null]}`, template: "{doc.m[*]}", err: "element 0", missing: true},
		{name: "a member twice, in different case", document: `{"m":[{"id":1},{"Id":2,"id":1}]}`, template: "{doc.m[*].id}", err: "element 1: the object has id twice"},
		{name: "the list twice, in different case", document: `{"m":["a"],"M":["b"]}`, template: "{doc.m[*]}", err: "m twice"},
		{name: "not a list", document: `{"m":{"id":1}}`, template: "{doc.m[*].id}", err: "m is an object, not a list"},
		{name: "a list in the list", document: `{"m":[["a"]]}`, template: "{doc.m[*]}", err: "element 0: value is a list"},
	}
	for _, tt := range tests {
		got, err := parse(t, tt.document).Each(placeholder(t, tt.template))
		fails := tt.missing || tt.err != ""
		if fails != (err != nil) || tt.missing != errors.Is(err, keytmpl.ErrMissingValue) || fails && !strings.Contains(fmt.Sprint(err), tt.err) || !fails && !slices.Equal(got, tt.want) {
			t.Errorf("%s: Each() = %q, %v; want %q, an error with %q, missing: %t", tt.name, got, err, tt.want, tt.err, tt.missing)
		}
	}
}

func TestEachRefusesMoreElementsThanATemplateMayHave(t *testing.T) {
	p := placeholder(t, "{doc[*]}")
	for n, want := range map[int]error{keytmpl.MaxKeys: nil, keytmpl.MaxKeys + 1: keytmpl.ErrTooManyKeys} {
		_, err := parse(t, "[1"+strings.Repeat(",1", n-1)+"]").Each(p)
		wantIs(t, fmt.Sprint(n, " elements"), err, want)
	}
}

func TestParseRefusesWhatIsNotOneJSONText(t *testing.T) {
	for _, data := range []string{"", " ", "{", "{} {}", "{}x", "user_id=1", `{"id":01}`, "\x00"} {
		if _, err := jsonpath.Parse([]byte(data)); err == nil || !strings.Contains(err.Error(), "not JSON") {
			t.Errorf("Parse(%q) error = %v, want one that says it is not JSON", data, err)
		}
	}
}

func FuzzDocument(f *testing.F) {
	for _, seed := range []string{`{"a":{"id":1}}`, `{"a":[{"id":"x"}]}`, `[1]`, `null`, `{"a":{"id":1e999}}`} {
		f.Add([]byte(seed))
	}
	one := keytmpl.MustParse("{doc.a.id}").Placeholders()[0]
	each := keytmpl.MustParse("{doc.a[*].id}").Placeholders()[0]
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := jsonpath.Parse(data)
		if err != nil {
			return
		}
		_, single := doc.One(one)
		_, list := doc.Each(each)
		if single == nil && list == nil {
			t.Errorf("%q has both one value and a list of them", data)
		}
	})
}
