package lockgrpc_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
)

// Each mistake is found, all of them at once, with the method and the option it
// is in; and nothing is made.
func TestWrongAnnotations(t *testing.T) {
	i, err := lockgrpc.New(memory(t), lockgrpc.FromAnnotations(&testpb.AnnotatedWrong_ServiceDesc))
	if i != nil || err == nil {
		t.Fatalf("got %v, %v", i, err)
	}
	lines := strings.Split(err.Error(), "\n")
	for method, want := range map[string]string{
		"NoKey":         "found nothing",
		"Missing":       `has no field "nobody"`,
		"Map":           "is a map",
		"Message":       "is a message: name one of its fields",
		"List":          "is a list: write texts[*]",
		"OnceForEach":   "Once needs exactly one",
		"OnceForStream": "Once is for unary methods",
		"Both":          "has (keyturn.v1.once) as well",
		"EachOfOne":     "the client sends only one message",
		"Permits":       "permits: 2 is only for MODE_PERMIT",
		"NoPermits":     "permits: 0, want 1",
	} {
		found := 0
		for _, line := range lines {
			if strings.Contains(line, want) && strings.HasPrefix(strings.TrimPrefix(line, "lockgrpc: "), "(keyturn.v1.") &&
				strings.Contains(line, `rule for "/keyturn.test.v1.AnnotatedWrong/`+method+`"`) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: %q stands %d times in\n%v", method, want, found, err)
		}
	}
	if len(lines) != 11 {
		t.Errorf("%d complaints:\n%v", len(lines), err)
	}
}

func TestFromAnnotationsRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		rules []lockgrpc.Rule
		want  string
	}{
		"no service":          {[]lockgrpc.Rule{lockgrpc.FromAnnotations()}, "at least one service"},
		"nil":                 {[]lockgrpc.Rule{lockgrpc.FromAnnotations(nil)}, "descriptor is nil"},
		"unknown service":     {[]lockgrpc.Rule{lockgrpc.FromAnnotations(&grpc.ServiceDesc{ServiceName: "im.v9.Users"})}, `no service "im.v9.Users"`},
		"twice":               {[]lockgrpc.Rule{fromProto, fromProto}, "there is already one"},
		"nobody's policy":     {[]lockgrpc.Rule{fromProto, lockgrpc.Configure("user-state")}, `configuration of "user-state": no annotated rule in use has this name; there are ["/keyturn.test.v1.Annotated/Chat"`},
		"policy of a Go rule": {[]lockgrpc.Rule{fromProto, lockgrpc.Serialize(annotatedClear, "k"), lockgrpc.Configure(annotatedClear)}, "no annotated rule in use"},
		"two policies":        {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(annotatedClear), lockgrpc.Configure(annotatedClear)}, "configuration of \"" + annotatedClear + "\": the rule already has one"},
		"a wrong policy":      {[]lockgrpc.Rule{fromProto, lockgrpc.Configure(annotatedClear, core.WithTTL(-1))}, "WithTTL(-1ns)"},
	} {
		i, err := lockgrpc.New(memory(t), tt.rules...)
		if i != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, %v; want %q", name, i, err, tt.want)
		}
	}
}
