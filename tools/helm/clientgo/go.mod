// Stands in for k8s.io/client-go, which Helm's packages name (go.mod, replace).
//
// Helm uses the real one to look up objects in a cluster, which rendering without a cluster never does, and to list the
// types of Kubernetes. Here the former is declarations only, and the latter lists the types that the chart may use.
module k8s.io/client-go

go 1.24.0

require (
	k8s.io/api v0.34.2
	k8s.io/apimachinery v0.34.2
)
