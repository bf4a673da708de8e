package lockgrpc

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/refusal"
	"github.com/keyturn/keyturn/keytmpl"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

const take = testpb.Fields_Take_FullMethodName

func bindTo(t testing.TB, r Rule) *boundRule {
	t.Helper()
	eng, err := core.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	bound, err := r.bind(eng)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// keysOf are the keys that a request makes.
func keysOf(b *boundRule, ctx context.Context, m proto.Message) ([]string, error) {
	keys, err := b.Keys(ctx, request{ctx, m.ProtoReflect()})
	if err != nil {
		return nil, err
	}
	return keys.All(), nil
}

func TestValuesBecomeText(t *testing.T) {
	child := func(texts ...string) []*testpb.Everything {
		var all []*testpb.Everything
		for _, text := range texts {
			all = append(all, &testpb.Everything{Text: text, Child: &testpb.Everything{Text: "in " + text}})
		}
		return all
	}
	tests := []struct {
		template string
		request  *testpb.Everything
		want     []string
	}{
		{"constant", &testpb.Everything{}, []string{"constant"}},
		{"k:{text}", &testpb.Everything{Text: "a:b"}, []string{"k:a%3Ab"}},
		{"k:{data}", &testpb.Everything{Data: []byte{0xab, 0, 0xff}}, []string{"k:ab00ff"}},
		// The output of sha256sum for hello: the digest is of the bytes, not of their hex.
		{"{data|hash}", &testpb.Everything{Data: []byte("hello")}, []string{"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}},
		{"k:{text|int}", &testpb.Everything{Text: "5.0e1"}, []string{"k:50"}},
		{"k:{i64|int}", &testpb.Everything{I64: math.MinInt64}, []string{"k:-9223372036854775808"}},
		{"k:{texts[*]|lower}", &testpb.Everything{Texts: []string{"B", "a", "b"}}, []string{"k:a", "k:b"}},
		{"k:{flag}", &testpb.Everything{Flag: true}, []string{"k:true"}},
		{"k:{flag}", &testpb.Everything{}, []string{"k:false"}},
		{
			"{i32}:{i64}:{s32}:{s64}:{sf32}:{sf64}",
			&testpb.Everything{I32: math.MinInt32, I64: math.MinInt64, S32: -1, S64: -2, Sf32: -3, Sf64: -4},
			[]string{"-2147483648:-9223372036854775808:-1:-2:-3:-4"},
		},
		{
			"{u32}:{u64}:{f32}:{f64}",
			&testpb.Everything{U32: 1, U64: math.MaxUint64, F32: math.MaxUint32, F64: 2},
			[]string{"1:18446744073709551615:4294967295:2"},
		},
		{"k:{maybe_i32}", &testpb.Everything{MaybeI32: proto.Int32(0)}, []string{"k:0"}},
		{"k:{status}", &testpb.Everything{Status: 99}, []string{"k:99"}}, // a newer client's
		{"k:{maybe_status}", &testpb.Everything{MaybeStatus: testpb.Status_STATUS_UNSPECIFIED.Enum()}, []string{"k:0"}},
		{"k:{chosen_text}", &testpb.Everything{Choice: &testpb.Everything_ChosenText{ChosenText: "x"}}, []string{"k:x"}},
		{"k:{chosen_message.text}", &testpb.Everything{Choice: &testpb.Everything_ChosenMessage{ChosenMessage: child("x")[0]}}, []string{"k:x"}},
		{"k:{child.child.text}:{child.text}", &testpb.Everything{Child: child("x")[0]}, []string{"k:in%20x:x"}},
		{"{data}", &testpb.Everything{Data: make([]byte, 256)}, []string{strings.Repeat("00", 256)}},
		{"k:{texts[*]}", &testpb.Everything{Texts: []string{"b", "a", "b"}}, []string{"k:a", "k:b"}},
		{"k:{blobs[*]}", &testpb.Everything{Blobs: [][]byte{{1}, {2}}}, []string{"k:01", "k:02"}},
		{"k:{numbers[*]}", &testpb.Everything{Numbers: []int32{0, -1}}, []string{"k:-1", "k:0"}},
		{"k:{statuses[*]}", &testpb.Everything{Statuses: []testpb.Status{0, 2}}, []string{"k:0", "k:2"}},
		{"k:{children[*].child.text}", &testpb.Everything{Children: child("b", "a")}, []string{"k:in%20a", "k:in%20b"}},
		{"{text}:{children[*].text}", &testpb.Everything{Text: "g", Children: child("b", "a")}, []string{"g:a", "g:b"}},
		{"k:{child.texts[*]}", &testpb.Everything{Child: &testpb.Everything{Texts: []string{"a"}}}, []string{"k:a"}},
	}
	for _, tt := range tests {
		got, err := keysOf(bindTo(t, Serialize(take, tt.template)), context.Background(), tt.request)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v; want %q", tt.template, got, err, tt.want)
		}
	}
}

func TestMetadataBecomesText(t *testing.T) {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.MD{
		"x-tenant": {"acme:eu"}, "x.dotted": {"d"}, "id-bin": {"\x00\xff"}, "empty": {""}, "two": {"a", "b"},
	})
	tests := []struct {
		template, want string
		is             error
	}{
		{"k:{metadata.x-tenant}", "k:acme%3Aeu", nil},
		{"k:{metadata.X-Tenant}", "k:acme%3Aeu", nil},
		{"k:{metadata.x.dotted}", "k:d", nil},
		{"k:{metadata.id-bin}", "k:00ff", nil},
		{"{metadata.id-bin|hash}", "06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8", nil},
		{"k:{metadata.missing}", "", keytmpl.ErrMissingValue},
		{"k:{metadata.empty}", "", keytmpl.ErrMissingValue},
		{"k:{metadata.two}", "", keytmpl.ErrManyValues},
	}
	for _, tt := range tests {
		got, err := keysOf(bindTo(t, Serialize(take, tt.template)), ctx, &testpb.Everything{})
		if !errors.Is(err, tt.is) || tt.is == nil && (err != nil || got[0] != tt.want) {
			t.Errorf("%s: %q, %v; want %q, %v", tt.template, got, err, tt.want, tt.is)
		}
	}
}

// A value that is missing is an error, and never the key of something else.
func TestMissingValues(t *testing.T) {
	tests := []struct {
		template string
		request  *testpb.Everything
		is       error
		field    string
	}{
		{"k:{text}", &testpb.Everything{}, keytmpl.ErrMissingValue, "text"},
		{"k:{data|hash}", &testpb.Everything{}, keytmpl.ErrMissingValue, "data"},
		{"k:{i64}", &testpb.Everything{}, keytmpl.ErrMissingValue, "i64"},
		{"k:{texts[*]|int|hash}", &testpb.Everything{Texts: []string{"1", "x"}}, keytmpl.ErrNotInteger, "texts[1]"},
		{"k:{status}", &testpb.Everything{}, keytmpl.ErrMissingValue, "status"},
		{"k:{maybe_flag}", &testpb.Everything{}, keytmpl.ErrMissingValue, "maybe_flag"},
		{"k:{maybe_i32}", &testpb.Everything{}, keytmpl.ErrMissingValue, "maybe_i32"},
		{"k:{chosen_text}", &testpb.Everything{Choice: &testpb.Everything_ChosenMessage{}}, keytmpl.ErrMissingValue, "chosen_text"},
		{"k:{child.flag}", &testpb.Everything{}, keytmpl.ErrMissingValue, "child.flag"},
		{"k:{child.child.text}", &testpb.Everything{Child: &testpb.Everything{}}, keytmpl.ErrMissingValue, "child.child.text"},
		{"k:{texts[*]}", &testpb.Everything{}, keytmpl.ErrMissingValue, "texts"},
		{"k:{texts[*]}", &testpb.Everything{Texts: []string{"a", ""}}, keytmpl.ErrMissingValue, "texts[1]"},
		{"k:{child.texts[*]}", &testpb.Everything{}, keytmpl.ErrMissingValue, "child.texts"},
		{"k:{children[*].i32}", &testpb.Everything{Children: []*testpb.Everything{{I32: 1}, {}}}, keytmpl.ErrMissingValue, "children[1].i32"},
		{"k:{children[*].child.text}", &testpb.Everything{Children: []*testpb.Everything{{}}}, keytmpl.ErrMissingValue, "children[0].child.text"},
		{"k:{text}", &testpb.Everything{Text: strings.Repeat("x", 512)}, keytmpl.ErrTooLong, "text"},
		{"k:{data}", &testpb.Everything{Data: make([]byte, 256)}, keytmpl.ErrTooLong, "data"},
	}
	for _, tt := range tests {
		keys, err := keysOf(bindTo(t, Serialize(take, tt.template)), context.Background(), tt.request)
		var value *keytmpl.ValueError
		if !errors.Is(err, tt.is) || !errors.As(err, &value) || fieldName(value) != tt.field {
			t.Errorf("%s: %q, %v; want %v of %s", tt.template, keys, err, tt.is, tt.field)
		}
	}
}

func TestHugeListIsRefusedBeforeItIsRead(t *testing.T) {
	bound := bindTo(t, Serialize(take, "{numbers[*]}"))
	huge := &testpb.Everything{Numbers: make([]int32, 1<<20)}
	for i := range huge.GetNumbers() {
		huge.Numbers[i] = int32(i) + 1000 // small ones need no allocation
	}
	allocs := testing.AllocsPerRun(5, func() {
		if _, err := keysOf(bound, context.Background(), huge); !errors.Is(err, keytmpl.ErrTooManyKeys) {
			t.Error(err)
		}
	})
	if allocs > 100 {
		t.Errorf("%v allocations", allocs)
	}
}

// Whatever a client sends, it makes a valid key or is refused, and two different values never make the same one.
func FuzzValues(f *testing.F) {
	f.Add("a:b", []byte{0, 0xff}, int64(1), "a", []byte("b"), int64(2))
	f.Add("a", []byte("b"), int64(-1), "a%", []byte("b:"), int64(0))
	f.Add("\x00{}", []byte("1:2"), int64(12), "\u2028", []byte("1"), int64(212))
	bound := bindTo(f, Serialize(take, "k:{text}-{data}:{i64}/{metadata.x-id-bin}"))
	f.Fuzz(func(t *testing.T, text1 string, data1 []byte, n1 int64, text2 string, data2 []byte, n2 int64) {
		key := func(text string, data []byte, n int64) (string, bool) {
			ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs("x-id-bin", text))
			keys, err := keysOf(bound, ctx, &testpb.Everything{Text: text, Data: data, I64: n})
			if err != nil {
				if refused := statusOf("", err); refused.Code().String() != "InvalidArgument" {
					t.Errorf("%q, %q, %d: %v", text, data, n, err)
				}
				return "", false
			}
			if err := driver.ValidateKey(keys[0]); err != nil {
				t.Errorf("%q, %q, %d: %v", text, data, n, err)
			}
			return keys[0], true
		}
		key1, ok1 := key(text1, data1, n1)
		key2, ok2 := key(text2, data2, n2)
		same := text1 == text2 && string(data1) == string(data2) && n1 == n2
		if ok1 && ok2 && (key1 == key2) != same {
			t.Errorf("%q and %q for (%q, %q, %d) and (%q, %q, %d)", key1, key2, text1, data1, n1, text2, data2, n2)
		}
	})
}

// TestEveryRefusalHasAnAnswer fails for a kind that was added to package refusal and not to the answers.
func TestEveryRefusalHasAnAnswer(t *testing.T) {
	for _, kind := range refusal.Kinds() {
		if _, ok := answers[kind]; !ok {
			t.Errorf("no answer to kind %d, %s", kind, kind.Reason())
		}
	}
}
