package lockgin_test

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must, wantNil, wantIs = checktest.Must, checktest.WantNil, checktest.WantIs

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}
