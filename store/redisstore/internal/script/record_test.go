package script

import (
	"bytes"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
)

func FuzzRecord(f *testing.F) {
	f.Add("o", []byte("fingerprint"), []byte("result"), "", false)
	f.Add("host/1/1/a/b", []byte(nil), []byte("3:\x00\xff"), "00-4bf9", false)
	f.Add("o", []byte(":1:"), []byte(nil), "+1:", false)
	f.Add("o", []byte("!:"), []byte(nil), "!", true)
	f.Fuzz(func(t *testing.T, owner string, fingerprint, result []byte, trace string, notKept bool) {
		if strings.Contains(owner, ":") {
			t.Skip() // no owner has one
		}
		given := driver.Record{Fingerprint: fingerprint, Result: result, Trace: trace, ResultNotKept: notKept}
		rec, err := decodeRecord(head(owner, given) + ":" + about(given) + string(result))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(rec.Fingerprint, fingerprint) || !bytes.Equal(rec.Result, result) || rec.Trace != trace || rec.ResultNotKept != notKept {
			t.Errorf("%q and %q became %+v", fingerprint, result, rec)
		}
	})
}

func TestBrokenRecord(t *testing.T) {
	for _, stored := range []string{"", "o", "o:", "o:x:", "o:!:", "o:1!+1:", "o:0!!:", "o:-1:", "o:4:abc", "o:99999999999999999999:", ":", "o:1+:", "o:+1:", "o:1+1:a", "o:0+2:a", "o:9223372036854775807+9223372036854775807:a"} {
		if rec, err := decodeRecord(stored); err == nil {
			t.Errorf("%q became %+v", stored, rec)
		}
	}
}
