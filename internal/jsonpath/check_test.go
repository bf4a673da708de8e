package jsonpath_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/jsonpath"
)

type (
	address struct {
		City string `json:"city"`
		Deep string
	}
	Base struct {
		Tenant string `json:"tenant"`
		Shared string `json:"shared"`
		Both   string `json:"both"`
	}
	Other struct {
		Shared string `json:"shared"`
		Both   string
	}
	Tagged struct {
		Won address `json:"Both"`
	}
	Identified struct {
		ID string `json:"id"`
	}
	Numbered struct {
		ID string `json:"number"`
	}
	Renamed struct {
		Identified
		ID string `json:"other"`
	}
	hidden struct{ Inner string }
	own    struct{ A, B int }
	level  int
	Looped struct {
		*Looped
		Name string
	}
	payload struct {
		ID     int64  `json:"id"`
		Name   string `json:",omitempty"`
		Secret string `json:"-"`
		//lint:ignore SA5008 the odd way to name a member "-" is one to know
		Dash     string            `json:"-,"`
		Quoted   int               `json:"quoted,string"`
		Flag     *bool             `json:"flag,omitempty"`
		Ratio    float64           `json:"ratio"`
		Addr     address           `json:"addr"`
		Home     **address         `json:"home"`
		Any      any               `json:"any"`
		Raw      json.RawMessage   `json:"raw"`
		Labels   map[string]string `json:"labels"`
		ByID     map[int]address   `json:"by_id"`
		Members  []address         `json:"members"`
		Pointers []*address        `json:"pointers"`
		IDs      [3]int            `json:"ids"`
		Matrix   [][]int           `json:"matrix"`
		Things   []any             `json:"things"`
		Bytes    []byte            `json:"bytes"`
		At       time.Time         `json:"at"`
		Big      *big.Int          `json:"big"`
		Own      own               `json:"own"`
		Level    level             `json:"level"`
		Call     func()            `json:"call"`
		Complex  complex128        `json:"complex"`
		private  string
		Base
		*Other
		hidden
		Named address `json:"address"`
	}
)

func (own) MarshalJSON() ([]byte, error)   { return []byte(`{"c":1}`), nil }
func (level) MarshalText() ([]byte, error) { return []byte("high"), nil }

func TestCheck(t *testing.T) {
	_ = payload{private: ""}.private
	for _, path := range strings.Fields(`id Name - quoted flag ratio addr.city home.Deep any any.what.ever any[*].x raw.x labels.anything
		by_id.x7.city members[*].city pointers[*].city ids[*] things[*] things[*].x.y bytes at big own.c level tenant both Inner address.city|hash`) {
		wantIs(t, path, jsonpath.Check(reflect.TypeFor[*payload](), placeholder(t, "{doc."+path+"}")), nil)
	}
	for _, tt := range []struct{ template, says string }{
		{"{doc.nope}", "no field nope"},
		{"{doc.ID}", "no field ID: want id"},
		{"{doc.Secret}", "no field Secret"},
		{"{doc.private}", "no field private"},
		{"{doc.Base}", "no field Base"},
		{"{doc.addr.zip}", "an object (jsonpath_test.address) has no field zip"},
		{"{doc.addr}", "addr is an object"},
		{"{doc.labels}", "labels is an object"},
		{"{doc.labels.a.b}", "b is requested from a single value"},
		{"{doc.id.x}", "x is requested from a single value (int64)"},
		{"{doc.level.x}", "x is requested from a single value"},
		{"{doc.members}", "members is a list: want members[*]"},
		{"{doc.members.city}", "city is requested from a list"},
		{"{doc.members[*]}", "members is an object"},
		{"{doc.members[*].nope}", "no field nope"},
		{"{doc.matrix[*]}", "matrix is a list"},
		{"{doc.id[*]}", "id is a single value (int64), not a list"},
		{"{doc.bytes[*]}", "not a list"},
		{"{doc.addr[*].city}", "not a list"},
		{"{doc.shared}", "several fields shared"},
		{"{doc.call}", "call is nothing in JSON (func())"},
		{"{doc.complex.re}", "re is requested from nothing in JSON"},
		{"{doc}", "doc is an object"},
		{"{doc[*].id}", "not a list"},
	} {
		if err := jsonpath.Check(reflect.TypeFor[*payload](), placeholder(t, tt.template)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want an error with %q", tt.template, err, tt.says)
		}
	}
}

func TestCheckOfOtherRoots(t *testing.T) {
	for _, tt := range []struct {
		typ      reflect.Type
		template string
		good     bool
	}{
		{reflect.TypeFor[any](), "{doc.what.ever}", true},
		{reflect.TypeFor[map[string]any](), "{doc.what.ever}", true},
		{reflect.TypeFor[string](), "{doc}", true},
		{reflect.TypeFor[string](), "{doc.x}", false},
		{reflect.TypeFor[[]address](), "{doc[*].city}", true},
		{reflect.TypeFor[[]address](), "{doc.city}", false},
		{reflect.TypeFor[Looped](), "{doc.Name}", true},
		{reflect.TypeFor[Looped](), "{doc.Looped}", false},
	} {
		err := jsonpath.Check(tt.typ, placeholder(t, tt.template))
		if (err == nil) != tt.good {
			t.Errorf("%s in %v: %v, want it to be good: %v", tt.template, tt.typ, err, tt.good)
		}
	}
}

// What encoding/json makes of a value is the measure: every member of the document is known, with its kind.
func TestCheckAgreesWithEncodingJSON(t *testing.T) {
	// With everything in it that can be marshalled.
	type all struct {
		ID     int64  `json:"id"`
		Secret string `json:"-"`
		//lint:ignore SA5008 the odd way to name a member "-" is one to know
		Dash string `json:"-,"`
		Base
		*Other
		hidden
		Tagged
		Addr address
		IDs  []int `json:"ids"`
		At   time.Time
		Own  own
	}
	for _, value := range []any{
		all{Other: &Other{}, IDs: []int{1}},
		// A tag wins over a name at the same depth, whatever the order.
		struct {
			Other
			Tagged
		}{},
		struct {
			Tagged
			Other
		}{},
		// The less deep one wins.
		struct {
			Tagged
			Other
			Both address
		}{},
		// One name in Go and two in JSON: the document has both.
		Renamed{},
		struct {
			Identified
			Numbered
		}{},
	} {
		data, err := json.Marshal(value)
		must(t, err)
		doc := parse(t, string(data))
		for _, name := range []string{
			"id", "ID", "other", "number", "Secret", "-", "tenant", "shared", "Both.city", "Inner", "Won", "Addr", "Addr.city", "ids", "At", "Base", "Other", "hidden",
		} {
			p := placeholder(t, "{doc."+name+"}")
			if name == "Both.city" && reflect.TypeOf(value) == reflect.TypeFor[all]() {
				continue // twice in different case, which only documents can tell
			}
			_, want := doc.One(p)
			if got := jsonpath.Check(reflect.TypeOf(value), p); (got == nil) != (want == nil) {
				t.Errorf("%s of %T: the type says %v, the document %v", name, value, got, want)
			}
		}
	}
}
