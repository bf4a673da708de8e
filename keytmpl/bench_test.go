package keytmpl_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/keytmpl"
)

func BenchmarkKey(b *testing.B) {
	for _, bench := range []struct {
		name, src string
		values    []string
	}{
		{"constant", "nightly-report", nil},
		{"one", "user:status:{user_id}", []string{"8f14e45f"}},
		{"two", "group:{group.id}:{metadata.x-tenant}", []string{"7c9e6679", "acme"}},
		{"unicode", "user:{name}", []string{"Jürgen Müller"}},
		{"escaped", "{a}:{b}", []string{"2024-05-01T10:00:00", "a:b"}},
		{"hash1k", "import:{body|hash}", []string{strings.Repeat("x", 1<<10)}},
	} {
		tmpl := keytmpl.MustParse(bench.src)
		value := values(bench.values...)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Key(value); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
