package lockgin_test

import (
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/internal/storetest"
)

var must, wantNil, wantIs = storetest.Must, storetest.WantNil, storetest.WantIs

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	goleak.VerifyTestMain(m)
}
