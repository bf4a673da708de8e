package onredis

import (
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/checktest"
)

var check = checktest.That

func TestParseValue(t *testing.T) {
	foreign := func(s string) Value { return Value{Owner: s} }
	for stored, want := range map[string]Value{
		"host/1/2/abc/00ff:1763683200000000":                          {Owner: "host/1/2/abc/00ff", Token: 1763683200000000},
		"o:1763683200000001:15:1763683200000:30000:":                  {Owner: "o", Token: 1763683200000001, Since: 1763683200000},
		"o:1763683200000001:15:1763683200000:30000:a%3Ab%7C%25+c|00-": {Owner: "o", Token: 1763683200000001, Since: 1763683200000, Rule: "a:b|% c", Trace: "00-"},
		"o:1763683200000001:15:1763683200000:10:%zz|":                 {Owner: "o", Token: 1763683200000001, Since: 1763683200000, Rule: "%zz"},
		"o:1763683200000001:15:1763683200000:30000:||a:inbox:0f":      {Owner: "o", Token: 1763683200000001, Since: 1763683200000, Lingers: true},
		"o:1763683200000001:15:1763683200000:30000:r|t|a:inbox:0f":    {Owner: "o", Token: 1763683200000001, Since: 1763683200000, Rule: "r", Trace: "t", Lingers: true},
		"9f2c1c1e-5d0a-4c53-9d83-3a6f0b7f2f11":                        foreign("9f2c1c1e-5d0a-4c53-9d83-3a6f0b7f2f11"),
		"10.0.0.7:6379":                                               foreign("10.0.0.7:6379"),
		"o:1763683200000001:15:1763683200000:":                        foreign("o:1763683200000001:15:1763683200000:"),
		"o:1763683200000001:15:1763683200000:x:":                      foreign("o:1763683200000001:15:1763683200000:x:"),
		"job:1763683200000000:x":                                      foreign("job:1763683200000000:x"),
		"job:1763683200000000:x:":                                     foreign("job:1763683200000000:x:"),
		"job:176368320000000x:1:":                                     foreign("job:176368320000000x:1:"),
		":":                                                           foreign(":"),
		"":                                                            foreign(""),
	} {
		got := ParseValue(stored)
		check(t, got == want, "%q: %+v, want %+v", stored, got, want)
	}
}

// FuzzNotes: whatever they say, they come back, and no field is taken for another.
func FuzzNotes(f *testing.F) {
	f.Add("POST /x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("a:b|c %", "+ |:%3A\xff")
	f.Fuzz(func(t *testing.T, rule, trace string) {
		stored := Notes(30*time.Second, rule, trace)
		check(t, strings.Count(stored, ":") == 1 && !strings.Contains(stored, " "), "%q", stored)
		v := ParseValue("o:1763683200000001:0:1:" + stored)
		check(t, v.Rule == rule && v.Trace == trace && v.Owner == "o", "%q and %q became %+v", rule, trace, v)
		lingers := ParseValue("o:1763683200000001:0:1:" + Lingering(stored, "a|b:inbox:0f"))
		check(t, !v.Lingers && lingers.Lingers && lingers.Rule == rule && lingers.Trace == trace, "lingering, %q and %q became %+v", rule, trace, lingers)
		quiet := ParseValue("o:1763683200000001:0:1:" + Quietly(stored))
		check(t, !v.Quiet && quiet.Quiet && quiet.Rule == rule && quiet.Trace == trace, "marked, %q and %q became %+v", rule, trace, quiet)
	})
}
