// Package scheme knows the groups of Kubernetes' types that the chart uses. A type of another group is unknown: add the
// group here when the chart starts to use it. Until then `chart decode` refuses it.
package scheme

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Scheme has the groups below. Helm adds those of CustomResourceDefinitions.
var Scheme = runtime.NewScheme()

var groups = runtime.NewSchemeBuilder(appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
	corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme)

// AddToScheme adds the groups to another scheme.
var AddToScheme = groups.AddToScheme

func init() {
	utilruntime.Must(AddToScheme(Scheme))
}
