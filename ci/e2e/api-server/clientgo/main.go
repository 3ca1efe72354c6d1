// Uses an API server as controllers do, with client-go, and prints what it has seen as JSON.
//
//	clientgo KUBECONFIG NAMESPACE NODE
//
// The namespace must exist. The tests in ci/e2e/api-server run it on the reference and on a real API server.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resource "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
)

const patience = 2 * time.Minute

type program struct {
	ctx       context.Context
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	namespace string
	node      string
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: clientgo KUBECONFIG NAMESPACE NODE")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := &program{
		ctx: ctx, config: config, client: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config),
		metadata: metadata.NewForConfigOrDie(config), namespace: os.Args[2], node: os.Args[3],
	}
	parts := map[string]func() any{
		"protobuf": p.protobuf, "informer": p.informer, "selected": p.selected, "resync": p.resync, "controller": p.controller,
		"apply": p.apply, "conflict": p.conflict, "patches": p.patches, "pages": p.pages, "retry": p.retry,
		"dynamic": p.unstructured, "metadata": p.partial, "leader": p.leader, "eviction": p.eviction, "claims": p.claims,
		"timeout": p.timeout, "collection": p.collection, "discovery": p.discovery,
	}
	facts := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		log.Print(name)
		facts[name] = parts[name]()
	}
	out, err := json.MarshalIndent(facts, "", "  ")
	check(err)
	fmt.Println(string(out))
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// The reason of a rejected request.
func reason(err error) string { return string(apierrors.ReasonForError(err)) }

func (p *program) configMap(name string, data map[string]string) *core.ConfigMap {
	return &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: p.namespace, Labels: map[string]string{"part": name}}, Data: data}
}

func (p *program) pod(name string) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Namespace: p.namespace, Labels: map[string]string{"part": name}},
		Spec:       core.PodSpec{Containers: []core.Container{{Name: "main", Image: "training"}}},
	}
}

func (p *program) runs(name string) *core.Pod {
	list := cache.NewListWatchFromClient(p.client.CoreV1().RESTClient(), "pods", p.namespace, fields.OneTermEqualSelector("metadata.name", name))
	event := must(watchtools.UntilWithSync(p.ctx, list, &core.Pod{}, nil, func(event watch.Event) (bool, error) {
		pod, ok := event.Object.(*core.Pod)
		return ok && pod.Status.Phase == core.PodRunning, nil
	}))
	return event.Object.(*core.Pod)
}

// Typed objects in protobuf, as clients of drivers send them.
func (p *program) protobuf() any {
	config := rest.CopyConfig(p.config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(p.namespace)
	created := must(maps.Create(p.ctx, p.configMap("protobuf", map[string]string{"a": "1"}), meta.CreateOptions{}))
	read := must(maps.Get(p.ctx, "protobuf", meta.GetOptions{}))
	check(maps.Delete(p.ctx, "protobuf", *meta.NewPreconditionDeleteOptions(string(read.UID))))
	return []any{created.UID == read.UID, read.Data}
}

// The events of a shared informer with a handler, in order.
func (p *program) observe(informer cache.SharedIndexInformer, change func()) []string {
	seen := make(chan string, 100)
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	name := func(kind string, obj any) {
		if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = unknown.Obj
		}
		seen <- kind + " " + obj.(meta.Object).GetName()
	}
	handle := must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { name("added", obj) }, UpdateFunc: func(_, obj any) { name("updated", obj) },
		DeleteFunc: func(obj any) { name("deleted", obj) },
	}))
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
		log.Panic("the informer has not synced")
	}
	change()
	events := []string{}
	for {
		select {
		case event := <-seen:
			events = append(events, event)
			if event == "deleted last" {
				return events
			}
		case <-ctx.Done():
			log.Panicf("the informer has only seen %v", events)
		}
	}
}

// Creates, changes and deletes objects; the last deletion is that of `last`.
func (p *program) changes() {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	must(maps.Create(p.ctx, p.configMap("other", nil), meta.CreateOptions{}))
	last := must(maps.Create(p.ctx, p.configMap("last", nil), meta.CreateOptions{}))
	last.Data = map[string]string{"a": "1"}
	must(maps.Update(p.ctx, last, meta.UpdateOptions{}))
	check(maps.Delete(p.ctx, "other", meta.DeleteOptions{}))
	check(maps.Delete(p.ctx, "last", meta.DeleteOptions{}))
}

func (p *program) informer() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	must(maps.Create(p.ctx, p.configMap("first", nil), meta.CreateOptions{}))
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithNamespace(p.namespace),
		informers.WithTweakListOptions(func(options *meta.ListOptions) { options.LabelSelector = "part" }))
	events := p.observe(factory.Core().V1().ConfigMaps().Informer(), p.changes)
	check(maps.Delete(p.ctx, "first", meta.DeleteOptions{}))
	return events
}

func (p *program) selected() any {
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithNamespace(p.namespace),
		informers.WithTweakListOptions(func(options *meta.ListOptions) { options.FieldSelector = "metadata.name=last" }))
	return p.observe(factory.Core().V1().ConfigMaps().Informer(), p.changes)
}

// A resync repeats the known objects.
func (p *program) resync() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	must(maps.Create(p.ctx, p.configMap("resync", nil), meta.CreateOptions{}))
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, time.Second, informers.WithNamespace(p.namespace),
		informers.WithTweakListOptions(func(options *meta.ListOptions) { options.LabelSelector = "part=resync" }))
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	same := make(chan bool, 100)
	informer := factory.Core().V1().ConfigMaps().Informer()
	must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, after any) {
		same <- before.(*core.ConfigMap).ResourceVersion == after.(*core.ConfigMap).ResourceVersion
	}}))
	go informer.RunWithContext(ctx)
	found := <-same
	check(maps.Delete(p.ctx, "resync", meta.DeleteOptions{}))
	return found
}

// A controller: a queue of keys, and a worker that annotates each ConfigMap.
func (p *program) controller() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	factory := informers.NewSharedInformerFactoryWithOptions(p.client, 0, informers.WithNamespace(p.namespace),
		informers.WithTweakListOptions(func(options *meta.ListOptions) { options.LabelSelector = "part=controller" }))
	informer := factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enqueue := func(obj any) { queue.Add(must(cache.MetaNamespaceKeyFunc(obj))) }
	must(informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }}))
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	must(maps.Create(p.ctx, p.configMap("controller", nil), meta.CreateOptions{}))
	for {
		key, _ := queue.Get()
		_, name, _ := cache.SplitMetaNamespaceKey(key)
		found := must(informer.Lister().ConfigMaps(p.namespace).Get(name))
		if found.Annotations["example.com/seen"] == "true" {
			queue.ShutDown()
			check(maps.Delete(p.ctx, name, meta.DeleteOptions{}))
			return found.Annotations
		}
		patch := []byte(`{"metadata": {"annotations": {"example.com/seen": "true"}}}`)
		must(maps.Patch(p.ctx, name, types.StrategicMergePatchType, patch, meta.PatchOptions{}))
		queue.Forget(key)
		queue.Done(key)
	}
}

// Server-side apply with typed configurations. A field that is left out is removed.
func (p *program) apply() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	options := meta.ApplyOptions{FieldManager: "one"}
	first := must(maps.Apply(p.ctx, applycore.ConfigMap("apply", p.namespace).WithData(map[string]string{"a": "1", "b": "1"}), options))
	extracted := must(applycore.ExtractConfigMap(first, "one"))
	second := must(maps.Apply(p.ctx, applycore.ConfigMap("apply", p.namespace).WithData(map[string]string{"a": "2"}), options))
	pods := p.client.CoreV1().Pods(p.namespace)
	container := applycore.Container().WithName("main").WithImage("training")
	spec := applycore.PodSpec().WithContainers(container).WithSchedulerName("none")
	pod := must(pods.Apply(p.ctx, applycore.Pod("apply", p.namespace).WithSpec(spec), options))
	status := applycore.PodStatus().WithConditions(applycore.PodCondition().WithType("example.com/checked").WithStatus(core.ConditionTrue))
	changed := must(pods.ApplyStatus(p.ctx, applycore.Pod("apply", p.namespace).WithStatus(status), options))
	check(pods.Delete(p.ctx, "apply", meta.DeleteOptions{}))
	check(maps.Delete(p.ctx, "apply", meta.DeleteOptions{}))
	return map[string]any{
		"extracted": extracted.Data, "second": second.Data, "image": pod.Spec.Containers[0].Image,
		"condition": slices.ContainsFunc(changed.Status.Conditions, func(one core.PodCondition) bool { return one.Type == "example.com/checked" }),
	}
}

// Another manager gets a conflict, and takes the field over with force.
func (p *program) conflict() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	wanted := func(value string) *applycore.ConfigMapApplyConfiguration {
		return applycore.ConfigMap("conflict", p.namespace).WithData(map[string]string{"a": value})
	}
	must(maps.Apply(p.ctx, wanted("1"), meta.ApplyOptions{FieldManager: "one"}))
	_, err := maps.Apply(p.ctx, wanted("2"), meta.ApplyOptions{FieldManager: "two"})
	forced := must(maps.Apply(p.ctx, wanted("2"), meta.ApplyOptions{FieldManager: "two", Force: true}))
	managers := []string{}
	for _, entry := range forced.ManagedFields {
		managers = append(managers, entry.Manager)
	}
	check(maps.Delete(p.ctx, "conflict", meta.DeleteOptions{}))
	fields := []string{}
	if status, ok := err.(apierrors.APIStatus); ok {
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, fmt.Sprint(cause.Type, " ", cause.Field))
		}
	}
	return map[string]any{"reason": reason(err), "causes": fields, "managers": managers, "data": forced.Data}
}

func (p *program) patches() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	must(maps.Create(p.ctx, p.configMap("patches", map[string]string{"a": "1"}), meta.CreateOptions{}))
	patch := func(kind types.PatchType, body string) map[string]string {
		return must(maps.Patch(p.ctx, "patches", kind, []byte(body), meta.PatchOptions{})).Data
	}
	found := []map[string]string{
		patch(types.JSONPatchType, `[{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "2"}]`),
		patch(types.MergePatchType, `{"data": {"a": null, "b": "1"}}`),
		patch(types.StrategicMergePatchType, `{"data": {"c": "1"}}`),
	}
	check(maps.Delete(p.ctx, "patches", meta.DeleteOptions{}))
	return found
}

func (p *program) pages() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	for i := range 5 {
		must(maps.Create(p.ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprint("page-", i), Labels: map[string]string{"page": ""}}}, meta.CreateOptions{}))
	}
	sizes, names := []int{}, []string{}
	pages := pager.New(func(ctx context.Context, options meta.ListOptions) (runtime.Object, error) {
		list, err := maps.List(ctx, options)
		if err == nil {
			sizes = append(sizes, len(list.Items))
		}
		return list, err
	})
	pages.PageSize, pages.PageBufferSize = 2, 0
	check(pages.EachListItem(p.ctx, meta.ListOptions{LabelSelector: "page"}, func(obj runtime.Object) error {
		names = append(names, obj.(*core.ConfigMap).Name)
		return nil
	}))
	check(maps.DeleteCollection(p.ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "page"}))
	return map[string]any{"sizes": sizes, "names": names}
}

func (p *program) retry() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	old := must(maps.Create(p.ctx, p.configMap("retry", map[string]string{"a": "1"}), meta.CreateOptions{}))
	must(maps.Patch(p.ctx, "retry", types.MergePatchType, []byte(`{"data": {"b": "1"}}`), meta.PatchOptions{}))
	attempts := []string{}
	check(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		old.Data["a"] = "2"
		_, err := maps.Update(p.ctx, old, meta.UpdateOptions{})
		attempts = append(attempts, reason(err))
		if err != nil {
			old = must(maps.Get(p.ctx, "retry", meta.GetOptions{}))
		}
		return err
	}))
	found := must(maps.Get(p.ctx, "retry", meta.GetOptions{}))
	check(maps.Delete(p.ctx, "retry", meta.DeleteOptions{}))
	return map[string]any{"attempts": attempts, "data": found.Data}
}

func (p *program) unstructured() any {
	place := core.SchemeGroupVersion.WithResource("configmaps")
	maps := p.dynamic.Resource(place).Namespace(p.namespace)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(p.dynamic, 0, p.namespace, func(options *meta.ListOptions) {
		options.LabelSelector = labels.Set{"part": "last"}.String()
	})
	events := p.observe(factory.ForResource(place).Informer(), p.changes)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "dynamic"}, "data": map[string]any{"a": "1"},
	}}
	applied := must(maps.Apply(p.ctx, "dynamic", object, meta.ApplyOptions{FieldManager: "one"}))
	check(maps.Delete(p.ctx, "dynamic", meta.DeleteOptions{}))
	_, err := maps.Get(p.ctx, "dynamic", meta.GetOptions{})
	return map[string]any{"events": events, "data": applied.Object["data"], "after": reason(err)}
}

func (p *program) partial() any {
	maps := p.metadata.Resource(core.SchemeGroupVersion.WithResource("configmaps")).Namespace(p.namespace)
	must(p.client.CoreV1().ConfigMaps(p.namespace).Create(p.ctx, p.configMap("metadata", nil), meta.CreateOptions{}))
	listed := must(maps.List(p.ctx, meta.ListOptions{LabelSelector: "part=metadata"}))
	one := must(maps.Get(p.ctx, "metadata", meta.GetOptions{}))
	check(maps.Delete(p.ctx, "metadata", meta.DeleteOptions{}))
	return []string{listed.Kind, listed.Items[0].Name, one.Kind, one.Labels["part"]}
}

// One candidate leads and releases the lease; then the other one leads.
func (p *program) leader() any {
	led := make(chan string, 2)
	lead := func(name string) {
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		lock := &resourcelock.LeaseLock{
			LeaseMeta: meta.ObjectMeta{Name: "leader", Namespace: p.namespace}, Client: p.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led <- name; cancel() }, OnStoppedLeading: func() {}},
		})
	}
	lead("one")
	lead("two")
	lease := must(p.client.CoordinationV1().Leases(p.namespace).Get(p.ctx, "leader", meta.GetOptions{}))
	return []any{<-led, <-led, *lease.Spec.LeaseTransitions}
}

// A budget forbids an eviction until it allows a disruption.
func (p *program) eviction() any {
	pods, budgets := p.client.CoreV1().Pods(p.namespace), p.client.PolicyV1().PodDisruptionBudgets(p.namespace)
	must(pods.Create(p.ctx, p.pod("eviction"), meta.CreateOptions{}))
	node := p.runs("eviction").Spec.NodeName == p.node
	one := intstr.FromInt32(1)
	selector := &meta.LabelSelector{MatchLabels: map[string]string{"part": "eviction"}}
	budget := &policy.PodDisruptionBudget{ObjectMeta: meta.ObjectMeta{Name: "eviction"}, Spec: policy.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: selector}}
	must(budgets.Create(p.ctx, budget, meta.CreateOptions{}))
	evict := func() error {
		grace := int64(0)
		options := &meta.DeleteOptions{GracePeriodSeconds: &grace}
		return p.client.PolicyV1().Evictions(p.namespace).Evict(p.ctx, &policy.Eviction{ObjectMeta: meta.ObjectMeta{Name: "eviction", Namespace: p.namespace}, DeleteOptions: options})
	}
	err := evict()
	cause := apierrors.HasStatusCause(err, policy.DisruptionBudgetCause)
	check(budgets.Delete(p.ctx, "eviction", meta.DeleteOptions{}))
	check(evict())
	_, gone := pods.Get(p.ctx, "eviction", meta.GetOptions{})
	return []any{node, reason(err), cause, reason(gone)}
}

// A Pod with a claim shows the health of its device.
func (p *program) claims() any {
	claims := p.client.ResourceV1().ResourceClaims(p.namespace)
	request := resource.DeviceRequest{Name: "gpu", Exactly: &resource.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}
	claim := &resource.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: "gpu"}, Spec: resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{request}}}}
	must(claims.Create(p.ctx, claim, meta.CreateOptions{}))
	pod, name := p.pod("claims"), "gpu"
	pod.Spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: name}}
	pod.Spec.ResourceClaims = []core.PodResourceClaim{{Name: name, ResourceClaimName: &name}}
	must(p.client.CoreV1().Pods(p.namespace).Create(p.ctx, pod, meta.CreateOptions{}))
	health := ""
	list := cache.NewListWatchFromClient(p.client.CoreV1().RESTClient(), "pods", p.namespace, fields.OneTermEqualSelector("metadata.name", "claims"))
	must(watchtools.UntilWithSync(p.ctx, list, &core.Pod{}, nil, func(event watch.Event) (bool, error) {
		for _, status := range event.Object.(*core.Pod).Status.ContainerStatuses {
			for _, entry := range status.AllocatedResourcesStatus {
				for _, device := range entry.Resources {
					health = string(device.Health)
				}
			}
		}
		return health != "", nil
	}))
	allocated := must(claims.Get(p.ctx, name, meta.GetOptions{})).Status.Allocation
	slices := must(p.client.ResourceV1().ResourceSlices().List(p.ctx, meta.ListOptions{FieldSelector: "spec.driver=gpu.example.com"}))
	now := int64(0)
	check(p.client.CoreV1().Pods(p.namespace).Delete(p.ctx, "claims", meta.DeleteOptions{GracePeriodSeconds: &now}))
	check(claims.Delete(p.ctx, name, meta.DeleteOptions{}))
	return []any{health, allocated.Devices.Results[0].Driver, len(slices.Items) > 0}
}

// A watch ends after the time that the client asks for.
func (p *program) timeout() any {
	watched := must(p.client.CoreV1().ConfigMaps(p.namespace).Watch(p.ctx, meta.ListOptions{TimeoutSeconds: new(int64(1))}))
	for range watched.ResultChan() {
	}
	return true
}

func (p *program) collection() any {
	maps := p.client.CoreV1().ConfigMaps(p.namespace)
	for _, name := range []string{"a", "b"} {
		must(maps.Create(p.ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"group": name}}}, meta.CreateOptions{}))
	}
	check(maps.DeleteCollection(p.ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "group=a"}))
	left := []string{}
	for _, item := range must(maps.List(p.ctx, meta.ListOptions{LabelSelector: "group"})).Items {
		left = append(left, item.Name)
	}
	check(maps.Delete(p.ctx, "b", meta.DeleteOptions{}))
	return left
}

func (p *program) discovery() any {
	groups, resources, err := p.client.Discovery().ServerGroupsAndResources()
	check(err)
	found := map[string]bool{}
	for _, list := range resources {
		for _, one := range list.APIResources {
			found[list.GroupVersion+"/"+one.Name] = true
		}
	}
	wanted := []string{"v1/pods", "v1/pods/eviction", "v1/pods/binding", "v1/pods/status", "policy/v1/poddisruptionbudgets", "resource.k8s.io/v1/resourceclaims/status"}
	missing := slices.DeleteFunc(wanted, func(name string) bool { return found[name] })
	version := must(p.client.Discovery().ServerVersion())
	return []any{len(groups) > 0, missing, version.Major}
}
