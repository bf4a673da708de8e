package script

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var (
	must    = checktest.Must
	check   = checktest.That
	wantNil = checktest.WantNil
)

func FuzzRecord(f *testing.F) {
	f.Add("o", []byte("fingerprint"), []byte("result"), "", false)
	f.Add("host-1/4711/2/toyrug/53a1fac7df860f5486080e8cbc92c3ab", []byte(nil), []byte(nil), "", false)
	f.Add("host-1/+1/2/toyrug/53A1fac7df860f5486080e8cbc92c3ab", []byte(nil), []byte(nil), "", false)
	f.Add("host/1/1/a/b", []byte(nil), []byte("3:\x00\xff"), "00-4bf9", false)
	f.Add("o", []byte(":1:"), []byte(nil), "+1:", false)
	f.Add("o", []byte("!:"), []byte(nil), "!", true)
	f.Fuzz(func(t *testing.T, owner string, fingerprint, result []byte, trace string, notKept bool) {
		if owner == "" || len(owner) > driver.MaxOwnerBytes {
			t.Skip() // CheckLease refuses it
		}
		given := driver.Record{Fingerprint: fingerprint, Result: result, Trace: trace, ResultNotKept: notKept}
		rec, err := decodeRecord(head(owner, given) + ":" + about(given) + string(result))
		must(t, err)
		check(t, bytes.Equal(rec.Fingerprint, fingerprint) && bytes.Equal(rec.Result, result) && rec.Trace == trace && rec.ResultNotKept == notKept, "%q and %q became %+v", fingerprint, result, rec)
		h, _ := parseHeader(head(owner, given) + ":")
		check(t, len(owner) >= mostHost || h.owner == owner, "the owner %q became %q", owner, h.owner)
	})
}

// An engine's owner is the same in its record, except for the beginning of a long host.
func TestOwnerInARecord(t *testing.T) {
	for owner, want := range map[string]string{
		"vm/17839/1/toyrug/53a1fac7df860f5486080e8cbc92c3ab": "",
		"h/0/0/0/00000000000000000000000000000000":           "",
		"h/1/1/toyrug/53A1FAC7df860f5486080e8cbc92c3ab":      "", // not ours
		"o": "",
		"openim-msgtransfer-6d5f8c7b9d-abcde/1/12/toyrug/53a1fac7df860f5486080e8cbc92c3ab": "msgtransfer-6d5f8c7b9d-abcde/1/12/toyrug/53a1fac7df860f5486080e8cbc92c3ab",
	} {
		if want == "" {
			want = owner
		}
		h, ok := parseHeader(head(owner, driver.Record{}) + ":")
		check(t, ok && h.owner == want, "%q became %q", owner, h.owner)
	}
}

func TestBrokenRecord(t *testing.T) {
	packed := "\x00\x13" + strings.Repeat("i", 16) + "\x02\x02\x02"
	wantNil(t, checktest.ErrorOf(decodeRecord(packed+"0:")))
	for _, stored := range []string{
		"", "\x01", "\x01o", "\x02o0:", "\x00", "\x00\x00", "\x00\x01o0:", packed, packed[:19] + "0:", packed[:20] + "\xff0:", "\x000:",
		"\x01o:", "\x01ox:", "\x01o!:", "\x01o1!+1:", "\x01o0!!:", "\x01o-1:", "\x01o4:abc", "\x01o99999999999999999999:", ":", "\x01o1+:",
		"\x01o+1:", "\x01o1+1:a", "\x01o0+2:a", "\x01o9223372036854775807+9223372036854775807:a",
	} {
		rec, err := decodeRecord(stored)
		check(t, err != nil, "%q became %+v", stored, rec)
	}
}
